"""The ways to cut an operator, discovered from its index expression."""

import pytest

from autodist.cost.resharding import PARTIAL, WHOLE
from autodist.graph.operators import Access, Affine, Expression, Linearity, Reducer
from autodist.search.tilings import (
    CoarseGraph,
    CoarseOperator,
    CoarseTensor,
    SearchOptions,
    find_tiling,
    forms_of,
    linear_forms,
    priced,
)

CONV1D = Expression(
    {"b": 8, "co": 6, "x": 10, "ci": 4, "dx": 3},
    (Access.by("b", "co", "x"),),
    (Access((Affine.of("b"), Affine.of("ci"), Affine.of("x") + Affine.of("dx"))), Access.by("ci", "co", "dx")),
    {"ci": Reducer.SUM, "dx": Reducer.SUM},
)
SHAPES = ((8, 4, 12), (4, 6, 3), (8, 6, 10))


def test_a_convolution_in_one_dim():
    """Batch, both channels and space; neighbours in space both need two places."""
    forms = {form.index: form for form in forms_of(CONV1D, dict(enumerate(SHAPES)))}
    assert forms["b"].states == (0, WHOLE, 0)
    assert forms["co"].states == (WHOLE, 1, 1)
    assert (forms["x"].states, forms["x"].halos) == ((2, WHOLE, 2), (2, 0, 0))
    assert forms["ci"].states == (1, 0, PARTIAL)
    assert not forms["b"].halos


@pytest.mark.parametrize("devices", [2, 5])
def test_halos_are_fetched_at_each_border(devices):
    operator = CoarseOperator("conv", (0, 1), (2,), forms_of(CONV1D, dict(enumerate(SHAPES))))
    tensors = tuple(CoarseTensor(name, shape) for name, shape in zip("dfo", SHAPES, strict=True))
    graph = CoarseGraph(tensors, (operator,))
    by_space = {0: tuple((form,) for form in operator.forms if form.index == "x")}
    moved = priced(graph, (devices,), [(2,), (WHOLE,), (2,)], among=by_space).moved_bytes
    assert moved == pytest.approx((devices - 1) * 2 * 8 * 4 * 4)


def test_what_is_joined_is_not_cut():
    """A softmax, whose sum is not at the root of what it computes."""
    softmax = Expression({"b": 4, "c": 6}, (Access.by("b", "c"),), (Access.by("b", None),), {}, frozenset("c"))
    assert [form.index for form in forms_of(softmax, {0: (4, 6), 1: (4, 6)})] == ["b"]


def test_linear_operators_take_terms_of_sums():
    assert [form.states for form in linear_forms(Linearity.JOINT, 3, 1)] == [(PARTIAL,) * 4]
    assert [form.states for form in linear_forms(Linearity.NUMERATOR, 2, 1)] == [(PARTIAL, WHOLE, PARTIAL)]
    assert linear_forms(None, 2, 1) == ()


def test_sums_wait_until_they_are_needed():
    """Gradients of many steps are added up as terms, and reduced once."""
    adds = 5
    shapes = {"x": (16, 8), "dy": (16, 8), "w": (8, 8)}
    product = Expression(
        {"i": 8, "o": 8, "b": 16}, (Access.by("i", "o"),), (Access.by("b", "i"), Access.by("b", "o")),
        {"b": Reducer.SUM}, frozenset("io"),
    )  # fmt: skip
    forms = forms_of(product, {0: shapes["x"], 1: shapes["dy"], 2: shapes["w"]})
    for may_wait in (False, True):
        tensors = [CoarseTensor("x", (16, 8)), CoarseTensor("dy", (16, 8)), CoarseTensor("w", (8, 8), stored=1)]
        operators = []
        for number in range(adds):
            tensors.append(CoarseTensor(f"g{number}", (8, 8), may_be_partial=may_wait))
            operators.append(CoarseOperator("gradient", (0, 1), (len(tensors) - 1,), forms))
        operators.append(CoarseOperator("add", tuple(range(3, 3 + adds)), (2,), linear_forms(Linearity.JOINT, adds, 1)))
        fixed = {0: ((0,),), 1: ((0,),)}
        found = find_tiling(CoarseGraph(tuple(tensors), tuple(operators)), (4,), SearchOptions(fixed=fixed))
        once = 2 * 3 * 8 * 8 * 4
        assert found.moved_bytes == (once if may_wait else adds * once)
