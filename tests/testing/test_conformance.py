"""The conformance suite: our own classes pass it, a real package of another's does, and what is broken is told."""

import dataclasses
import doctest
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from autodist import carriers, compressors, strategies
from autodist.compressors import FP16, ErrorFeedback, PowerSGD, RandomK, TopK
from autodist.errors import ConformanceFailed, StrategyError
from autodist.kernels import ExtraKernel, SynchronizerKernel, kernels_for
from autodist.strategies import GraphConfig, PSLoadBalancing, Strategy, StrategyBuilder
from autodist.strategies._builders import BUILDERS
from autodist.testing.conformance import (
    check_builder,
    check_carrier,
    check_compressor,
    check_kernel,
    check_synchronizer,
)

PLANNED = [builder for builder in BUILDERS if builder is not strategies.Manual]  # which needs a file


@pytest.mark.parametrize("builder", PLANNED, ids=lambda cls: cls.name)
def test_our_builders_pass(builder):
    check_builder(builder())


@pytest.mark.parametrize(
    "builder",
    [
        strategies.PS(staleness=2),
        strategies.PSLoadBalancing(sync=False),
        strategies.PartitionedPS(max_shards=7, local_proxy=True),
        strategies.BytePS(part_bytes=10_000, compressor="FP16"),
        strategies.Horovod(fusion_bytes=1, compressor="TopK(ratio=0.1)"),
        strategies.Parallax(communicator="horovod", compressor="FP16"),
    ],
    ids=str,
)
def test_our_builders_pass_with_parameters(builder):
    check_builder(builder)


@pytest.mark.filterwarnings("ignore::autodist.strategies.PlanWarning")
def test_a_plan_passes(tmp_path):
    (tmp_path / "plan.yml").write_text('"*": {ps: {}}')
    check_builder(strategies.Manual(str(tmp_path / "plan.yml")))


@pytest.mark.parametrize("found", compressors.registered(), ids=lambda found: found.name)
def test_our_compressors_pass(found):
    check_compressor(compressors.get(found.name))


@pytest.mark.parametrize(
    "compressor", [ErrorFeedback(TopK(0.3)), ErrorFeedback(FP16()), PowerSGD(1), RandomK(1.0)], ids=str
)
def test_our_compressors_pass_with_parameters(compressor):
    check_compressor(compressor)


@pytest.mark.parametrize("carrier", carriers.carriers(), ids=lambda carrier: carrier.name)
def test_our_carriers_pass(carrier):
    check_carrier(carrier)


@pytest.mark.parametrize(
    "synchronizer",
    [
        strategies.PSSynchronizer("localhost:CPU:0"),
        strategies.PSSynchronizer("localhost:CPU:0", staleness=2, local_proxy=True),
        strategies.AllReduceSynchronizer(0),
        strategies.AllReduceSynchronizer(3, "tcp"),
    ],
    ids=str,
)
def test_our_synchronizers_pass(synchronizer):
    check_synchronizer(synchronizer)


# --- a real package of another's

PACKAGE = '''
"""Everything on the last host, gradients halved in size, and a kernel that counts."""

from dataclasses import dataclass
from typing import ClassVar

from autodist.compressors import Compressor, Exchanged
from autodist.graph import NodeList
from autodist.kernels import ExtraKernel
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, StrategyBuilder, VariableConfig


@dataclass(frozen=True)
class LastHost(StrategyBuilder):
    """Everything lives on the last host."""

    name: ClassVar[str] = "LastHost"
    staleness: int = 0

    def build(self, graph, spec):
        home = PSSynchronizer(spec.hosts[-1].cpu_devices[0].name, staleness=self.staleness)
        configs = tuple(VariableConfig.whole(variable.name, home) for variable in graph.trainable)
        replicas = tuple(device.name for device in spec.replicas)
        return Strategy(GraphConfig(replicas, "tcp"), configs, builder=str(self))


@dataclass(frozen=True)
class Plain(Compressor):
    """Sends what there is."""

    name: ClassVar[str] = "Plain"

    @property
    def lossless(self):
        return True

    def message_bytes(self, shape, dtype):
        from math import prod

        return prod(shape) * {"float32": 4, "float64": 8}.get(dtype, 2)

    def exchange(self, nodes, name, gradient, shape, dtype, channel):
        return Exchanged(channel.all_reduce(f"{name}/all", gradient, dtype, shape), gradient)


@dataclass(frozen=True)
class Mark(ExtraKernel):
    """Adds a node that nothing reads."""

    name: ClassVar[str] = "Mark"
    after: ClassVar[str] = "replicate"

    def apply(self, graph):
        nodes = NodeList(device=graph.layout.main_device)
        marked = nodes.add("NoOp", "mark/of/another")
        graph_def = type(graph.graph_def)()
        graph_def.CopyFrom(graph.graph_def)
        graph_def.node.extend(nodes.nodes)
        return graph.replace(graph_def=graph_def, effects=(*graph.effects, marked))
'''
ENTRY_POINTS = """[autodist.strategies]
LastHost = plugin_full:LastHost

[autodist.compressors]
Plain = plugin_full:Plain

[autodist.kernels]
Mark = plugin_full:Mark
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package as pip does: a module and its metadata on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(source, entry_points=ENTRY_POINTS):
        (tmp_path / "plugin_full.py").write_text(source)
        info = tmp_path / "plugin_full-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin_full\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)

    yield install
    sys.modules.pop("plugin_full", None)


def test_a_package_of_another_passes_and_is_found(install):
    install(PACKAGE)
    builder, compressor = strategies.get("LastHost(staleness=1)"), compressors.get("Plain")
    assert str(builder) == "LastHost(staleness=1)"
    [kernel] = [kernel for kernel in kernels_for_nothing() if kernel.name == "Mark"]
    check_builder(strategies.get("LastHost"))
    check_compressor(compressor)
    check_kernel(kernel)


def kernels_for_nothing():
    empty = strategies.PSLoadBalancing().build(*_nothing())
    return kernels_for(_nothing()[0], empty)


def _nothing():
    from autodist.resource_spec import ResourceSpec
    from autodist.testing.conformance import sample_graphs

    return sample_graphs(0)["no variable"], ResourceSpec.local()


def test_a_kernel_of_another_stands_in_its_place(install):
    install(PACKAGE)
    names = [kernel.name for kernel in kernels_for_nothing()]
    assert names.index("Mark") == names.index("replicate") + 1


def test_a_kernel_behind_nothing_is_refused(install):
    install(PACKAGE.replace('"replicate"', '"elsewhere"'))
    with pytest.raises(StrategyError, match="the kernel `Mark` is to follow 'elsewhere', allowed: 'replicate', "):
        kernels_for_nothing()


def test_a_package_that_cannot_be_loaded_is_left_out_with_a_warning(install):
    install("1 / 0")
    with pytest.warns(strategies.PluginWarning, match="the kernel `Mark` can't be loaded: ZeroDivisionError"):
        assert "Mark" not in [kernel.name for kernel in kernels_for_nothing()]


# --- what is broken


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
    assert caught.value.message.endswith("its kernel leaves the gradient of `kernel` as it is on each worker")


PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_page_runs():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_page_names_the_places_of_kernels():
    shown = re.search(r"it\nfollows: (.*?)\.", PAGE.read_text(), re.DOTALL)
    assert re.findall(r"`([a-z-]+)`", shown[1]) == [kernel.name for kernel in kernels_for_nothing()]
