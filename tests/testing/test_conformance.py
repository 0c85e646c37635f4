"""The conformance suite: our own classes pass it, and so does a real package of another's."""

import sys

import pytest

from autodist import carriers, compressors, strategies
from autodist.compressors import FP16, ErrorFeedback, PowerSGD, RandomK, TopK
from autodist.errors import StrategyError
from autodist.strategies._builders import BUILDERS
from autodist.testing.conformance import (
    check_builder,
    check_carrier,
    check_compressor,
    check_kernel,
    check_synchronizer,
)

from .conforming import kernels_for_nothing

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


def test_a_kernel_of_another_stands_in_its_place(install):
    install(PACKAGE)
    names = [kernel.name for kernel in kernels_for_nothing()]
    assert names.index("Mark") == names.index("replicate") + 1


def test_a_kernel_behind_nothing_is_refused(install):
    install(PACKAGE.replace('"replicate"', '"elsewhere"'))
    with pytest.raises(
        StrategyError, match="the kernel `Mark` is to follow 'elsewhere', allowed: 'settle', 'replicate', "
    ):
        kernels_for_nothing()


def test_a_package_that_cannot_be_loaded_is_left_out_with_a_warning(install):
    install("1 / 0")
    with pytest.warns(strategies.PluginWarning, match="the kernel `Mark` can't be loaded: ZeroDivisionError"):
        assert "Mark" not in [kernel.name for kernel in kernels_for_nothing()]
