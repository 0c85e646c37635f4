"""The way back: what a proposal was made into is recognized as that proposal."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.resource_spec import ResourceSpec
from autodist.search import ASPECTS, Catalogue, Rule, Space, recognize, sample
from autodist.simulator import Domain
from autodist.strategies import AllReduceSynchronizer, GraphConfig, PSSynchronizer, Strategy, VariableConfig, get
from tests.strategies.examples import BOTH, graph, graphs, spec, specs, variable

LARGE = (512, 64)


def space(g, d, *rules, **options):
    found = Space(Domain.of(g, d), rules, communicators=("tcp", *BOTH), **options)
    return found, Catalogue.of(found)


def strategy(d, *configs, communicator="tcp"):
    return Strategy(GraphConfig(tuple(device.name for device in d.replicas), communicator), configs)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_strategies_are_the_proposals_that_they_were_made_of(data):
    g, d = data.draw(graphs().filter(lambda g: g.trainable)), data.draw(specs())
    found, catalogue = space(g, d, aspects=data.draw(st.sampled_from([None, ASPECTS])))
    proposals = sample(found, catalogue, 5, np.random.default_rng(data.draw(st.integers(0, 99))))
    made = [proposals.strategy(number, found, catalogue) for number in range(5)]
    again, numbers = recognize(made, found, catalogue)
    assert numbers.tolist() == [0, 1, 2, 3, 4]
    assert [again.strategy(number, found, catalogue) for number in range(5)] == made


@pytest.mark.parametrize(
    "name", ["AllReduce(communicator='horovod')", "PSLoadBalancing", "Parallax(communicator='tcp')"]
)
def test_what_users_know_is_in_the_space(name):
    g, d = graph(variable("v", LARGE, order=1), variable("w", LARGE, sparse=True)), spec("a", "b", "c")
    found, catalogue = space(g, d)
    built = get(name).build(g, d)
    proposals, numbers = recognize([built], found, catalogue)
    assert numbers.tolist() == [0]
    [again] = [proposals.strategy(0, found, catalogue)]
    assert [type(c.synchronizer) for c in again.variables] == [type(c.synchronizer) for c in built.variables]


def test_groups_are_the_same_whatever_their_numbers():
    g, d = graph(*(variable(name, order=order) for order, name in enumerate("uvwx"))), spec("a", "b")
    found, catalogue = space(g, d)

    def grouped(*groups):
        configs = [VariableConfig.whole(n, AllReduceSynchronizer(k)) for n, k in zip("uvwx", groups, strict=True)]
        return strategy(d, *configs, communicator="collective")

    proposals, _ = recognize([grouped(0, 0, 1, 1), grouped(7, 7, 3, 3), grouped(0, 1, 1, 1)], found, catalogue)
    one, same, other = proposals.fingerprints
    assert one == same != other


def test_what_is_not_in_the_space_is_left_out():
    g, d = graph(variable("v", LARGE), variable("w", LARGE)), spec("a", "b", cpus=2)
    found, catalogue = space(g, d, Rule.exclude("v=partition"))
    fitting = strategy(d, *(VariableConfig.whole(n, PSSynchronizer("b:CPU:0")) for n in "vw"))
    v, w = fitting.variables
    shards = (v.shards[0],) * 2
    others = [
        dataclasses.replace(fitting, variables=(dataclasses.replace(v, shards=shards, partition=(2, 1)), w)),
        dataclasses.replace(fitting, variables=(v, dataclasses.replace(w, shards=shards, partition=((500, 12), 1)))),
        dataclasses.replace(fitting, variables=(v, VariableConfig.whole("w", PSSynchronizer("b:CPU:1")))),
        dataclasses.replace(fitting, variables=(v, VariableConfig.whole("w", AllReduceSynchronizer(0)))),
        dataclasses.replace(fitting, variables=(v,)),
        dataclasses.replace(fitting, graph=GraphConfig(("a:CPU:0",), "tcp")),
        dataclasses.replace(fitting, graph=GraphConfig(fitting.graph.replicas, "queue", 1 << 19)),
    ]
    _, numbers = recognize([*others, fitting], found, catalogue)
    assert numbers.tolist() == [len(others)]


def test_nothing_is_recognized_among_nothing():
    found, catalogue = space(graph(variable("w")), ResourceSpec.local(workers=2))
    proposals, numbers = recognize([], found, catalogue)
    assert (len(proposals), len(numbers)) == (0, 0)
