"""Spartan's greedy search, and what it is compared with."""

import itertools

import numpy as np
import pytest

from autodist.cost.resharding import COPIES
from autodist.search.tilings import (
    CoarseGraph,
    CostFactor,
    Method,
    Replicate,
    SearchOptions,
    device_memory,
    eliminate,
    find_tiling,
    greedy,
)

from .layer_graphs import Layers, mlp
from .test_tiling_search import random_graph

SAME, SWAPPED = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])


def test_views_that_conflict():
    """C = A + B, D = A' + B', E = C + D, in sizes of an array: cut alike, C and D need one of A and B moved, twice."""
    a, b, c, d, e = range(5)
    factors = [CostFactor(s, SAME) for s in ((a, c), (b, c), (c, e), (d, e))] + [
        CostFactor(s, SWAPPED) for s in ((a, d), (b, d))
    ]
    assert eliminate(factors, [2] * 5, range(5))[0] == 1
    assert greedy(factors, [2] * 5)[0] == 2
    assert greedy(factors, [2] * 5, defers_ties=True)[0] == 1


@pytest.mark.parametrize(("budget", "cost"), [(0, 3), (0.5, 3), (1, 0)])
def test_copies_are_made_as_far_as_memory_allows(budget, cost):
    """Alternating least squares folds a matrix along both dims, three times each."""
    folds = CostFactor((0,), np.array([3.0, 3.0, 0.0]))
    assert greedy([folds], [3], extra_bytes={(0, 2): 1.0}, budget_bytes=budget)[0] == cost


def test_clauses_cost_more_if_all_literals_are_equal():
    """Why the optimum is hard: satisfying not-all-equal clauses is choosing tilings."""
    for signs in itertools.product((0, 1), repeat=3):
        tables = [
            CostFactor((i, j), SWAPPED if signs[i] == signs[j] else SAME)
            for i, j in itertools.permutations(range(3), 2)
        ]
        for values in itertools.product((0, 1), repeat=3):
            literals = {value ^ sign for value, sign in zip(values, signs, strict=True)}
            cost = sum(1 - t.costs[values[t.scope[0]], values[t.scope[1]]] for t in tables)
            assert cost == (0 if len(literals) == 1 else 4)
        assert eliminate(tables, [2] * 3, range(3))[0] == 2


def test_waiting_for_a_preference_is_better_on_random_graphs():
    chance = np.random.default_rng(7)
    worse = {Method.GREEDY: 0, Method.DEFERRING: 0}
    for _ in range(60):
        graph = random_graph(chance)
        best = find_tiling(graph, (2,), SearchOptions(Method.JOINT)).moved_bytes
        for method in worse:
            moved = find_tiling(graph, (2,), SearchOptions(method)).moved_bytes
            assert moved >= best - 1e-9
            worse[method] += moved > best + 1e-9
    assert worse[Method.DEFERRING] <= worse[Method.GREEDY]
    assert worse[Method.DEFERRING] <= 6


def test_a_matrix_that_is_taken_both_ways_is_kept_twice():
    """As alternating least squares does; a copy of it takes memory instead of bytes on the way."""
    layers = Layers(64)
    a = layers.tensor("a", 64, 64, stored=1)
    for number in range(4):
        out = [layers.tensor(f"{name}{number}", 64) for name in "uv"]
        layers.operator("rows", "mk->m", (a,), out[0], "k")
        layers.operator("columns", "mk->k", (a,), out[1], "m")
    graph = CoarseGraph(tuple(layers.tensors), tuple(layers.operators))
    fixed = dict.fromkeys(range(1, len(graph.tensors)), ((0,),))
    plain = find_tiling(graph, (4,), SearchOptions(Method.DEFERRING, Replicate.NEVER, fixed=fixed))
    copied = find_tiling(graph, (4,), SearchOptions(Method.DEFERRING, Replicate.NEVER, fixed=fixed, copies_bytes=1e6))
    scarce = find_tiling(graph, (4,), SearchOptions(Method.DEFERRING, Replicate.NEVER, fixed=fixed, copies_bytes=100))
    assert copied.layouts[a] == (COPIES,)
    assert copied.moved_bytes < plain.moved_bytes == scarce.moved_bytes
    assert device_memory(graph, (4,), copied).stored == 2 * device_memory(graph, (4,), plain).stored


def test_greedy_on_a_network_is_no_better_than_the_best():
    graph = mlp(512, [1024] * 4)
    best = find_tiling(graph, (4,), SearchOptions(Method.JOINT)).moved_bytes
    assert best <= find_tiling(graph, (2, 2), SearchOptions(Method.DEFERRING)).moved_bytes * 2
    assert best <= find_tiling(graph, (4,), SearchOptions(Method.GREEDY)).moved_bytes
