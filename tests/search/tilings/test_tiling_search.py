"""Tilings that are found: tables that can be checked by hand, and other ways to find the same."""

import numpy as np
import pytest

from autodist.cost.resharding import WHOLE, AxisTiles
from autodist.search.tilings import (
    CoarseGraph,
    Method,
    Replicate,
    SearchOptions,
    Tables,
    TooWide,
    find_tiling,
    priced,
)
from autodist.search.tilings._domains import Domains

from .layer_graphs import Layers, mlp
from .oracles import by_integer_program, by_trying_all

R, C = 0, 1
MB = 1e6


def found(graph, axes, x0=None, **options):
    """On axes of two devices each, the inputs being cut along their batch, or free."""
    fixed = {} if x0 is None else {graph.place["x0"]: ((x0,) * axes,)}
    return find_tiling(graph, (2,) * axes, SearchOptions(tiles=AxisTiles.DIGITS, fixed=fixed, **options))


def product(rows, inner, columns):
    layers = Layers(rows)
    x, w, y = layers.rows("x", inner), layers.tensor("w", inner, columns), layers.rows("y", columns)
    layers.operator("product", "bi,io->bo", (x, w), y)
    return CoarseGraph(tuple(layers.tensors), tuple(layers.operators))


# --- one operator


@pytest.mark.parametrize(
    ("given", "costs"),
    [
        ("RR", (1, 1.5, 2)), ("RC", (1, 1, 2)), ("Rr", (0, 0.5, 1)), ("CR", (1, 1, 2)), ("CC", (1.5, 1, 2)),
        ("Cr", (0.5, 1, 1.5)), ("rR", (1, 0.5, 1.5)), ("rC", (0.5, 0, 1)), ("rr", (0, 0, 1)),
    ],
)  # fmt: skip
def test_one_product_on_two_devices(given, costs):
    graph, states = product(4, 4, 4), {"R": (R,), "C": (C,), "r": (WHOLE,)}
    inputs = [states[letter] for letter in given]
    moved = [priced(graph, (2,), [*inputs, states[made]]).moved_bytes / 64 for made in "RCr"]
    assert moved == pytest.approx(costs)


def test_one_unary_operator_on_two_devices():
    layers = Layers(4)
    x, y = layers.rows("x", 4), layers.rows("y", 4)
    layers.operator("relu", "bc->bc", (x,), y)
    graph = CoarseGraph(tuple(layers.tensors), tuple(layers.operators))
    expected = {(R, R): 0, (R, C): 0.5, (R, -1): 1, (C, R): 0.5, (C, C): 0, (C, -1): 1, (-1, R): 0, (-1, -1): 1}
    for (source, target), share in expected.items():
        assert priced(graph, (2,), [(source,), (target,)]).moved_bytes / 64 == share


@pytest.mark.parametrize("sizes", [(4, 4, 4), (8, 4, 16)])
def test_a_product_on_four_devices(sizes):
    """Tofu, figure 6: rows at first, columns then, fetch half of one matrix and what the other half lacks."""
    graph = product(*sizes)
    a, b, _ = (tensor.size_bytes for tensor in graph.tensors)
    assert priced(graph, (2, 2), [(R, C)] * 3, AxisTiles.DIGITS).moved_bytes == a + b
    rows = {
        0: tuple(x for x in Tables(graph, (2, 2)).combinations(graph.operators[0]) if {f.index for f in x} == {"b"})
    }
    assert priced(graph, (2, 2), [(R, R)] * 3, AxisTiles.DIGITS, rows).moved_bytes == 3 * b


# --- networks of dense layers


def test_data_and_model_parallelism_are_tilings():
    """Five layers of 300 on batches of 400, on two devices."""
    graph = mlp(400, [300] * 6)
    data = {name: (WHOLE,) if name[0] == "w" else (R,) for name in graph.place}
    model = {name: (R,) if "w" in name else (WHOLE,) if name[0] == "d" else (C,) for name in graph.place}
    assert priced(graph, (2,), [data[name] for name in graph.place]).moved_bytes == pytest.approx(3.6 * MB)
    assert priced(graph, (2,), [model[name] for name in graph.place]).moved_bytes == pytest.approx(4.8 * MB)


SCALE = 16  # so that sixteen devices cut it evenly; bytes are 256 times as many


@pytest.mark.parametrize(
    ("batch", "width", "x0", "megabytes"),
    [
        (400, 300, R, (3.6, 8.4, 13.68, 20.88)),
        (300, 400, R, (4.8, 10.08, 16.48, 26.08)),
        (400, 300, None, (3.12, 6.96, 11.28, 17.28)),
    ],
)
@pytest.mark.parametrize("method", [Method.RECURSIVE, Method.LEVELS])
def test_recursion_on_two_to_sixteen_devices(batch, width, x0, megabytes, method):
    graph = mlp(batch * SCALE, [width * SCALE] * 6)
    for axes, expected in enumerate(megabytes, 1):
        moved = found(graph, axes, x0, method=method).moved_bytes / MB / SCALE**2
        assert moved <= expected + 1e-9
        assert moved > expected * 0.95


@pytest.mark.parametrize(
    ("batch", "width", "megabytes"), [(512, 8192, 553.6), (2048, 8192, 2214.6), (2048, 12288, 3321.9)]
)
def test_four_large_layers_on_eight_devices(batch, width, megabytes):
    graph = mlp(batch, [width] * 5)
    for method in (Method.RECURSIVE, Method.JOINT):
        assert found(graph, 3, R, method=method).moved_bytes / MB == pytest.approx(megabytes, abs=0.05)


@pytest.mark.parametrize("method", [Method.RECURSIVE, Method.LEVELS])
def test_one_cut_after_another_is_not_the_best(method):
    """The same layouts, with other cuts of operators; searching one axis again finds them."""
    graph = mlp(64, [512, 32, 1024])
    greedy = found(graph, 2, R, method=method, polish=False)
    best = found(graph, 2, R, method=method)
    assert (greedy.moved_bytes, best.moved_bytes) == (327_680, 294_912)
    assert greedy.layouts == best.layouts
    layouts = dict(zip(graph.place, best.layouts, strict=True))
    assert [layouts[name] for name in ("x0", "w1", "x1", "x2", "w2")] == [(R, R), (R, R), (-1, -1), (C, C), (C, C)]
    assert found(graph, 2, R, method=Method.JOINT).moved_bytes == 294_912


def test_a_later_cut_may_cost_less():
    first, both = found(mlp(16, [256, 16, 64]), 2, R, method=Method.RECURSIVE, polish=False).after_each
    assert (first, both - first) == (20_480, 16_384)


# --- against other ways to find the same


def random_graph(chance):
    """Products, sums and transpositions of a few matrices."""
    layers = Layers(4)
    sizes = [2, 4, 6, 16]
    for number in range(3):
        layers.tensor(f"t{number}", *(int(n) for n in chance.choice(sizes, 2)))
    for number in range(int(chance.integers(2, 5))):
        a, b = (int(t) for t in chance.integers(0, len(layers.tensors), 2))
        (m, k), second = layers.tensors[a].shape, layers.tensors[b].shape
        if second[0] == k:
            layers.operator("product", "mk,kn->mn", (a, b), layers.tensor(f"o{number}", m, second[1]))
        elif second == (m, k):
            layers.operator("sum", "mk,mk->mk", (a, b), layers.tensor(f"o{number}", m, k))
        elif second[0] == m:
            layers.operator("product", "km,kn->mn", (a, b), layers.tensor(f"o{number}", k, second[1]))
        else:
            layers.operator("transposition", "mk->km", (a,), layers.tensor(f"o{number}", k, m))
    return CoarseGraph(tuple(layers.tensors), tuple(layers.operators))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_all_ways_agree_on_random_graphs(seed):
    """Twenty-five graphs each: elimination, the recursion with its repair, all that can be tried, and HiGHS."""
    chance = np.random.default_rng(seed)
    for number in range(25):
        graph, lengths = random_graph(chance), [(2,), (3,), (2, 2)][number % 3]
        replicate = [Replicate.FREE, Replicate.NEVER][number % 2]
        tiles = list(AxisTiles)[number // 2 % 2]
        options = SearchOptions(Method.JOINT, replicate, tiles)
        best = find_tiling(graph, lengths, options).moved_bytes
        domains = Domains(graph, lengths, replicate).every()
        assert by_integer_program(graph, lengths, domains, tiles) == pytest.approx(best)
        if np.prod([len(domain) for domain in domains]) < 3000:
            assert by_trying_all(graph, lengths, domains, tiles) == pytest.approx(best)
        repaired = find_tiling(graph, lengths, SearchOptions(Method.RECURSIVE, replicate, tiles)).moved_bytes
        assert repaired == pytest.approx(best)


def test_what_is_too_wide_is_said():
    graph = mlp(512, [512] * 4)
    with pytest.raises(TooWide):
        find_tiling(graph, (2, 2, 2), SearchOptions(Method.JOINT, most_cells=1000))
    assert find_tiling(graph, (2, 2, 2), SearchOptions(most_cells=1000)).moved_bytes > 0
