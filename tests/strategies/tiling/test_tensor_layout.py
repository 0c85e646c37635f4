"""Layouts of tensors: their text, and what is wrong with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.resource_spec import Mesh
from autodist.strategies.tiling import TensorLayout, layout_problems

MESH = Mesh((("host", 2), ("device", 3)), tuple("abcdef"))


@st.composite
def layouts(draw):
    axes = draw(st.permutations(["host", "device", "pair", "x_1"]))
    rank = draw(st.integers(0, 4))
    places = [draw(st.integers(-2, rank - 1)) for _ in axes]
    dims = tuple(tuple(a for a, place in zip(axes, places, strict=True) if place == dim) for dim in range(rank))
    return TensorLayout(dims, tuple(a for a, place in zip(axes, places, strict=True) if place == -2))


@given(layouts())
def test_a_layout_comes_back_from_its_text(layout):
    assert TensorLayout.parse(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "host,", "host +", "a-b", "*.host", "host + device"])
def test_what_is_no_layout_is_refused(text):
    with pytest.raises(StrategyError, match="is not a layout of a tensor"):
        TensorLayout.parse(text)


@pytest.mark.parametrize(
    ("text", "shape", "reasons"),
    [
        ("host,device", (4, 9), []),
        ("host.device", (12,), []),
        ("() +host", (), []),
        ("host.device", (8,), []),
        ("host.device", (5,), ["up to 5 parts of dim 0 (host=2 x device=3 makes 6)"]),
        ("host,*", (4,), ["1 dims (the tensor's shape is (4,))"]),
        ("row,host", (2, 3), ["the axes host, device (the mesh has no axis `row`)"]),
        ("host,host", (1, 4), ["each axis once (`host` stands there 2 times)", "up to 1 part of dim 0 (host=2"]),
        ("host,* +host", (4, 4), ["each axis once"]),
    ],
)
def test_all_problems_are_named(text, shape, reasons):
    found = list(map(str, layout_problems("w", TensorLayout.parse(text), shape, MESH)))
    assert len(found) == len(reasons)
    for sentence, reason in zip(found, reasons, strict=True):
        assert sentence.startswith(f"`w`: layout is {text}, allowed: ")
        assert reason in sentence


def test_what_is_named_nowhere_is_whole():
    assert TensorLayout.whole(2).is_whole
    assert TensorLayout.whole(2).tile_shape((5, 3), MESH.length_of) == (5, 3)
    assert not TensorLayout((), ("host",)).is_whole
