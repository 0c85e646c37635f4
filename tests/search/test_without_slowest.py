"""`auto` says what a host with a slow link costs, since only the user can leave it out."""

import pytest

from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Auto, cluster_of
from autodist.simulator import Domain, EventSimulator

WEIGHT = Variable("w", "w", (1000, 2500), "float32", Role.TRAINABLE, (Gradient("w"),))
GRAPH = TrainingGraph(None, (WEIGHT,), (), (), (), batch_size=32)


def cluster(*gbps):
    return ResourceSpec(tuple(Host(f"h{k}", f"h{k}", bandwidth_gbps=one) for k, one in enumerate(gbps)))


@pytest.mark.parametrize("gbps", [(1.0, 1.0, 0.1), (10.0, 0.5, 10.0, 10.0)], ids=str)
def test_a_host_that_holds_up_all_others_is_named(gbps):
    spec, slow = cluster(*gbps), f"h{gbps.index(min(gbps))}"
    builder = Auto(over="tcp").build(GRAPH, spec).builder
    assert f"; without `{slow}`, whose link has {min(gbps):g} Gbit/s, a step should take " in builder
    fewer = cluster_of(spec, [host.name for host in spec.hosts if host.name != slow])
    chosen = Auto(over="tcp").build(GRAPH, fewer)
    assert "without" not in chosen.builder
    expected_ms = 1e3 * float(EventSimulator().predict([chosen], Domain.of(GRAPH, fewer))[0])
    told_ms = float(builder.partition("should take ")[2].split()[0].replace(",", ""))
    assert told_ms == pytest.approx(expected_ms, rel=0.25), "what is chosen for all hosts may be not the best for fewer"


@pytest.mark.parametrize(
    "gbps", [(1.0, 0.1), (0.1, 1.0, 1.0), (1.0, 0.1, 0.1), (1.0, 1.0, 0.7)], ids=["two", "chief", "several", "alike"]
)
def test_of_others_nothing_is_said(gbps):
    assert "without" not in Auto(over="tcp").build(GRAPH, cluster(*gbps)).builder
