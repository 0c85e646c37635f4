"""Local proxies by streams: the server sends a value right after its update, and each worker sets its own copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autodist.graph import NodeList, StepAnalysis, Variable
from autodist.kernels._base import Layout
from autodist.kernels.servers._channels import Streams
from autodist.kernels.servers._proxies import Proxy
from autodist.kernels.servers._units import ServedUnit


class ProxyStreams:
    """The work of both ends for the copies of variables.

    Args:
        nodes: Where to add nodes.
        layout: The workers.
        variables: The variables of the step.
        container: Resource container of the variables.
        analysis: Analysis of the step before servers have their places in it.
        step: Name of the compiled step, part of the streams' names.
    """

    def __init__(
        self,
        nodes: NodeList,
        layout: Layout,
        variables: Iterable[Variable],
        container: str,
        analysis: StepAnalysis,
        step: str,
    ) -> None:
        self._nodes = nodes
        self._layout = layout
        self._variables = {variable.name: variable for variable in variables}
        self._container = container
        self._analysis = analysis
        self._step = step
        self._handles: dict[str, str] = {}

    def send(self, unit: ServedUnit, epoch: int, after: Sequence[str], ranks: Sequence[int]) -> list[str]:
        """Add nodes that send a unit's values to other workers once its updates of an epoch have run."""
        return [self._send(self._variables[name], epoch, after, ranks) for name in unit.proxied]

    def receive(self, unit: ServedUnit, epoch: int, after: Sequence[str], reads: Sequence[str]) -> list[str]:
        """Add nodes that set this worker's copies to the values that come.

        Args:
            unit: The variables.
            epoch: The epoch of updates after which the values come.
            after: The nodes that send what the server needs before its values can come.
            reads: The nodes that read the copies in this step before they are set.
        """
        source = self._layout.rank_of(unit.destination)
        return [self._receive(self._variables[name], epoch, source, after, reads) for name in unit.proxied]

    def _send(self, variable: Variable, epoch: int, after: Sequence[str], ranks: Sequence[int]) -> str:
        stream = self._stream(variable, epoch)
        inputs = [variable.handle, *(f"^{node}" for node in after)]
        name = f"{stream.prefix}/value"
        value = self._nodes.add("ReadVariableOp", name, inputs, device=stream.own_device, dtype=variable.dtype)
        return stream.broadcast(f"epoch_{epoch}/copy", "send", [value], [variable.dtype], (), ranks)

    def _receive(self, variable: Variable, epoch: int, source: int, after: Sequence[str], reads: Sequence[str]) -> str:
        stream = self._stream(variable, epoch)
        proxy = Proxy(variable, self._layout.rank, stream.own_device)
        value = stream.take(f"epoch_{epoch}/copy", "receive", [variable.dtype], source, after)
        handle = self._handles.get(variable.name) or proxy.handle(self._nodes, self._container)
        self._handles[variable.name] = handle
        return proxy.assign(self._nodes, f"{stream.prefix}/assign", handle, value, reads)

    def _stream(self, variable: Variable, epoch: int) -> Streams:
        """The stream of a variable's value: after gradients, and those first that the next step needs first."""
        readers = [name for name, handles in self._analysis.reads.items() if variable.handle in handles]
        depth = self._analysis.depth_of_use(readers) or 0
        prefix, shared = f"autodist/proxy/{variable.handle}/stream_{epoch}", f"{self._step}/{variable.name}"
        return Streams(self._nodes, "", prefix, shared, self._layout.main_device, 1 + depth)
