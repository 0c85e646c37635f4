"""Workers with copies of a server's variables compute what one device does, and read nothing else."""

import dataclasses

import numpy as np
import pytest

from autodist.graph import node_of
from autodist.strategies import PSSynchronizer, VariableConfig
from autodist.testing import InProcessCluster, certify_in_process

from . import plans
from .steps import ops
from .test_order import updating
from .test_placement import BATCHES, make_step

X = np.random.default_rng(3).normal(size=(6, 2)).astype(np.float32) / 2
HOSTS = plans.hosts(2, 2)


def with_proxies(replicas, destination="h0:CPU:0", **options):
    """All dense variables get proxies."""

    def plan(graph):
        strategy = plans.served(graph, replicas, [destination], **options)
        sparse = {v.name for v in graph.trainable if v.is_sparse}
        home = PSSynchronizer(destination, local_proxy=True, **options)
        configs = [c if c.variable in sparse else VariableConfig.whole(c.variable, home) for c in strategy.variables]
        return dataclasses.replace(strategy, variables=tuple(configs))

    return plan


@pytest.mark.parametrize(
    ("replicas", "destination"),
    [
        (("h0:CPU:0", "h1:CPU:0"), "h1:CPU:1"),
        (("h0:CPU:0", "h1:CPU:0", "h1:CPU:1"), "h0:CPU:0"),
        (("h1:CPU:0",), "h0:CPU:0"),
    ],
)
def test_equals_one_device(replicas, destination):
    certify_in_process(make_step, BATCHES, with_proxies(replicas, destination), HOSTS)


@pytest.mark.parametrize("times", [2, 3])
def test_a_step_goes_on_with_the_value_that_it_has_just_updated(times):
    plan = with_proxies(("h0:CPU:0", "h1:CPU:0"))
    certify_in_process(lambda: updating(times), [(X,), (2 * X,), (X,)], plan, HOSTS)


def test_only_the_proxy_is_read():
    made = InProcessCluster(updating(1), (X,), with_proxies(("h0:CPU:0", "h1:CPU:0")), HOSTS)
    owner, other = (worker.graph for worker in made.workers)
    refresh = {refresher.node for refresher in other.refreshers.values()}
    assert refresh
    assert not owner.refreshers
    reads = [other.nodes[name] for name in ops(other, "ReadVariableOp")]
    reads = [node for node in reads if not any(node.name.startswith(f"{name}/") for name in refresh)]
    assert reads
    for node in reads:
        assert "task:1/" in node.device
        assert other.nodes[node_of(node.input[0])].attr["shared_name"].s == b"w/proxy"
    assert not [name for name in ops(owner, "AssignVariableOp") if "task:1/" in owner.nodes[name].device]
    assert len(set(ops(other, "AssignVariableOp")) - refresh) == 1, "what the server has sent"
    made.close()


def test_values_from_outside_reach_the_proxies():
    made = InProcessCluster(updating(1), (X,), with_proxies(("h0:CPU:0", "h1:CPU:0")), HOSTS)
    (before,) = made.step(X)[1]
    made.workers[0].initialize({"w": np.float32([[5.0], [5.0]])})
    made.refresh()
    losses = made.step(X)
    made.close()
    expected = np.mean(np.square(X @ np.float32([[5.0], [5.0]])))
    assert abs(before - expected) > 0.1
    np.testing.assert_allclose(np.ravel(losses), [expected] * 2, rtol=1e-5)
