"""Poseidon's cost model: the values of the thesis, and how its schemes compare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.cost import broadcast_floats, server_floats

MILLION = 1e6
SIZES = st.integers(1, 30_000)
NODES = st.integers(1, 64)


def test_the_thesis_example():
    assert server_floats(4096, 4096, workers=8, servers=8) / MILLION == pytest.approx(58.7, abs=0.05)
    assert broadcast_floats(4096, 4096, workers=8, pairs=32) / MILLION == pytest.approx(3.7, abs=0.05)


def best_scheme(rows, columns, nodes, pairs):
    """What Poseidon chooses for a fully connected layer."""
    by_servers = server_floats(rows, columns, workers=nodes, servers=nodes)
    by_factors = broadcast_floats(rows, columns, workers=nodes, pairs=pairs)
    return "Broadcast" if by_factors <= by_servers else "PS"


@pytest.mark.parametrize(
    ("rows", "columns", "pairs", "nodes", "scheme"),
    [
        (4096, 4096, 32, 8, "Broadcast"),  # fc7 of VGG
        (4096, 4096, 128, 32, "Broadcast"),  # exactly as dear: 65.0 million each
        (4096, 4096, 256, 16, "Broadcast"),
        (25088, 4096, 32, 32, "Broadcast"),  # fc6
        (4096, 1000, 32, 32, "Broadcast"),  # fc8
        (4096, 1000, 32, 64, "PS"),
        (1024, 1000, 128, 4, "Broadcast"),  # GoogLeNet's thin layer
        (1024, 1000, 128, 8, "PS"),
        (1024, 1000, 128, 16, "PS"),
    ],
)
def test_the_best_scheme_is_that_of_the_thesis(rows, columns, pairs, nodes, scheme):
    assert best_scheme(rows, columns, nodes, pairs) == scheme


@given(SIZES, SIZES, NODES, st.integers(1, 512))
def test_broadcast_is_best_up_to_a_number_of_nodes(rows, columns, nodes, pairs):
    threshold = 2 * rows * columns / (pairs * (rows + columns))
    chosen = best_scheme(rows, columns, nodes, pairs)
    if nodes == 1 or nodes < threshold * 0.999:
        assert chosen == "Broadcast"
    elif nodes > threshold * 1.001:
        assert chosen == "PS"
