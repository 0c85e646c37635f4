"""Sums of which each worker gets its rows, of as many rows as a batch has."""

import pytest

from autodist.carriers import Place, Scattered, get
from autodist.graph import NodeList


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_collectives_of_tensorflow_keep_the_shape_of_their_first_run(dtype):
    """So there is one for each size."""
    nodes = NodeList(device="/device:CPU:0")
    place = Place(0, 2, "/device:CPU:0", "step")
    scattered = Scattered("parts", "firsts", "counts", 2)
    get("collective").communicator(place).reduce_scatter(nodes, "sum", scattered, "own", dtype, place)
    (reduce,) = (node for node in nodes.nodes if node.op == "CollectiveReduceV2")
    assert reduce.input[3].endswith("instance_key/of_size")
