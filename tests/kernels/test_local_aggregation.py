"""What a worker sends with and without stations, counted."""

import pytest

from autodist.graph import data_inputs, node_of
from autodist.testing import InProcessCluster

from . import plans
from .test_placement import BATCHES, make_step

REPLICAS = ("h0:CPU:0", "h1:CPU:0", "h1:CPU:1")
HOSTS = plans.hosts(2, 2)


def graph_of_remote(**options):
    """The graph of a worker with two replicas whose variables live on the other worker."""
    plan = lambda graph: plans.served(graph, REPLICAS, ["h0:CPU:0"], **options)  # noqa: E731
    made = InProcessCluster(make_step(), BATCHES[0], plan, HOSTS)
    made.close()
    return made.workers[1].graph


def pushes(graph):
    return [n for n in graph.nodes.values() if n.op == "AutodistSend" and "/push_gradient" in n.name]


@pytest.mark.parametrize(("options", "count"), [({}, 2), ({"transfer": ("h1:CPU:1",)}, 1)])
def test_messages_per_variable(options, count):
    graph = graph_of_remote(**options)
    assert len(pushes(graph)) == 2 * count  # of two variables
    received = [n for n in graph.nodes.values() if n.op == "AutodistReceive" and "value" in n.name]
    assert len(received) == 1, "the weight comes once in any case"


def test_what_leaves_a_station_was_added_up_there():
    graph = graph_of_remote(transfer=("h1:CPU:1",))
    for push in pushes(graph):
        for tensor in data_inputs(push):
            assert graph.nodes[node_of(tensor)].op in ("AddN", "ConcatV2")
            assert graph.nodes[node_of(tensor)].device.endswith("task:1/device:CPU:1")
