"""The conformance suite tells what is broken, all of it at once."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest

from autodist import carriers, compressors, strategies
from autodist.errors import ConformanceFailed
from autodist.kernels import ExtraKernel, SynchronizerKernel
from autodist.strategies import GraphConfig, PSLoadBalancing, Strategy, StrategyBuilder
from autodist.testing.conformance import (
    check_builder,
    check_carrier,
    check_compressor,
    check_kernel,
    check_synchronizer,
)


def broken(check, candidate):
    with pytest.raises(ConformanceFailed) as caught:
        check(candidate)
    title, *lines = caught.value.message.splitlines()
    assert title == f"{type(candidate).__name__} breaks its contract:"
    assert caught.value.hint == "docs/extending.md says what it is to keep"
    return "\n".join(lines)


@dataclass(frozen=True)
class Forgetful(StrategyBuilder):
    """Leaves out the last variable, and knows no empty graph"""

    name: ClassVar[str] = "Forgetfull"
    depth: int = dataclasses.field(kw_only=True)

    def build(self, graph, spec):
        whole = PSLoadBalancing().build(graph, spec)
        last = whole.variables[-1]
        return dataclasses.replace(whole, variables=tuple(c for c in whole.variables if c is not last))


def test_a_broken_builder_is_told_all_of_it():
    text = broken(check_builder, Forgetful(depth=3))
    assert "  - its `name` is 'Forgetfull', expected that of its class, 'Forgetful'" in text
    assert "its docstring does not begin with one line" in text
    assert "its parameter `depth` has no default" in text
    assert "`build` raises IndexError (tuple index out of range), allowed: a StrategyError with a reason" in text
    assert "(a graph with no variable, on one CPU)" in text
    assert "its strategy does not verify: config is missing, allowed: one" in text


@dataclass(frozen=True)
class Moody(StrategyBuilder):
    """Another strategy each time."""

    name: ClassVar[str] = "Moody"
    calls: ClassVar[list] = []

    def build(self, graph, spec):
        self.calls.append(1)
        whole = PSLoadBalancing().build(graph, spec)
        names = whole.graph.replicas[:: -1 if len(self.calls) % 2 else 1]
        return Strategy(GraphConfig(list(names), "tcp"), whole.variables)


def test_strategies_that_workers_would_not_agree_about_are_seen():
    text = broken(check_builder, Moody())
    assert "its strategy is another one each time" in text
    assert "its strategy does not survive JSON" in text


@dataclass(frozen=True)
class Loud(compressors.Compressor):
    """Adds one to each number, and says that it does not."""

    name: ClassVar[str] = "Loud"

    @property
    def lossless(self):
        return True

    def message_bytes(self, shape, dtype):
        return 4

    def exchange(self, nodes, name, gradient, shape, dtype, channel):
        more = nodes.add("Add", f"{name}/more", [gradient, nodes.constant(f"{name}/one", 1, dtype)], T=dtype)
        total = channel.all_reduce(f"{name}/all", more, dtype, shape)
        return compressors.Exchanged(total, gradient)


def test_a_broken_compressor_is_told_all_of_it():
    text = broken(check_compressor, Loud())
    assert "`message_bytes` says 4, its messages have 68 bytes (gradients of shape (17,), float32)" in text
    assert "the workers' own contributions don't add up to the total" in text
    assert "it says that it is lossless, and its total is not the sum of the gradients" in text
    assert "gradients of zero become something else" in text


@dataclass(frozen=True)
class Boastful(compressors.Compressor):
    """Sends nothing and says that it makes up for it."""

    name: ClassVar[str] = "Boastful"

    @property
    def has_feedback(self):
        return True

    def message_bytes(self, shape, dtype):
        return 0

    def exchange(self, nodes, name, gradient, shape, dtype, channel):
        nothing = nodes.add("ZerosLike", f"{name}/nothing", [gradient], T=dtype)
        return compressors.Exchanged(nothing, nothing)


def test_feedback_that_does_not_come_is_seen():
    assert "it says that it has feedback, and after one step the error is" in broken(check_compressor, Boastful())


@dataclass(frozen=True)
class Careless(ExtraKernel):
    """Writes into the graph that it is given."""

    name: ClassVar[str] = "Careless"
    after: ClassVar[str] = "place"

    def apply(self, graph):
        graph.graph_def.node.add(name=f"stray_{len(graph.graph_def.node)}", op="NoOp")
        return graph.replace(effects=(*graph.effects, graph.graph_def.node[-1].name))


def test_a_broken_kernel_is_told_all_of_it():
    text = broken(check_kernel, Careless())
    assert "it changes the graph that it is given, and not a copy of it (rank 0 of 1 with 1 replicas each)" in text
    assert "without a device: follow a kernel before 'place', or set one" in text


def test_a_kernel_that_breaks_the_graph_is_seen():
    @dataclass(frozen=True)
    class Cutting(ExtraKernel):
        """Takes a node away."""

        name: ClassVar[str] = "Cutting"
        after: ClassVar[str] = "replicate"

        def apply(self, graph):
            graph_def = type(graph.graph_def)(node=list(graph.graph_def.node)[1:])
            return graph.replace(graph_def=graph_def)

    assert "the pipeline fails with it: GraphError" in broken(check_kernel, Cutting())


@dataclass(frozen=True)
class Leaky(carriers.Carrier):
    """Sends to itself, and not enough to others."""

    name: ClassVar[str] = "tcp"
    called: ClassVar[str] = "a leaky line"

    def communicator(self, place):
        return 1 / 0

    def links(self, load, sums):
        return {(host, host): 10.0 for host in sums}


def test_a_broken_carrier_is_told_all_of_it():
    text = broken(check_carrier, Leaky())
    assert "its `name` is 'tcp', which is that of Tcp" in text
    assert "`links` has ('a', 'a'), allowed: two of the hosts" in text
    assert "`links` sends 10 bytes of nothing" in text
    assert "`links` brings 10 bytes to one of 2 hosts, which needs " in text
    assert "its collectives fail: ZeroDivisionError: division by zero" in text


@dataclass(frozen=True)
class Loose(strategies.OnEveryWorker):
    """Has no kernel, and forgets its carrier."""

    type: ClassVar[str] = "Loose"
    form: ClassVar[strategies.Form] = strategies.Form.REDUCED
    verb: ClassVar[str] = "left alone"
    communicator: str = "collective"

    @classmethod
    def of_choice(cls, choice, home, group, stations):
        return cls("horovod")


def test_a_broken_synchronizer_is_told_all_of_it():
    text = broken(check_synchronizer, Loose())
    assert "its choice becomes Loose(communicator='horovod')" in text
    assert "no kernel rewrites graphs for the synchronizer 'Loose'" in text


@dataclass(frozen=True)
class Idle(SynchronizerKernel):
    """Does nothing."""

    name: ClassVar[str] = "Idle"
    synchronizer: ClassVar[type] = Loose

    def meet(self, graph, points, step):
        return graph


def test_a_kernel_that_lets_gradients_be_is_told():
    with pytest.raises(ConformanceFailed) as caught:
        check_synchronizer(Loose("horovod"), [Idle()])
    assert caught.value.message.endswith("its kernel leaves the gradient of `kernel` unchanged on each worker")
