"""Local proxies: every worker but the variable's own reads a cached copy, which the server keeps up to date.

The server sends the new value right after an update, while the rest of the step goes on, and the workers assign it. A
server that applies updates alongside the steps assigns it itself, before its token, where there is one. So the next
step reads what is already there. The step itself only reads another variable; what the program assigns between steps
reaches the copies by the graph's `refreshers`.

A step that trains nothing has such copies of all that lives on other workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import NodeList, Variable
from autodist.kernels._base import DistributedGraph, Fact, Kernel, Layout, Refresher
from autodist.kernels.servers._units import ServedUnit, units_of
from autodist.strategies import Strategy


def proxy_name(variable: str) -> str:
    """The name of a worker's copy of a variable in the session."""
    return f"{variable}/proxy"


@dataclass(frozen=True)
class Proxy:
    """One worker's copy of a variable."""

    variable: Variable
    rank: int
    device: str

    @property
    def handle_name(self) -> str:
        """The node that finds the copy."""
        return f"autodist/proxy/{self.variable.handle}/of_{self.rank}"

    def handle(self, nodes: NodeList, container: str) -> str:
        """Add the node that finds the copy; its worker and the server give it the same name."""
        return nodes.add(
            "VarHandleOp",
            self.handle_name,
            device=self.device,
            dtype=self.variable.dtype,
            shape=self.variable.shape,
            shared_name=proxy_name(self.variable.name),
            container=container,
        )

    def assign(self, nodes: NodeList, name: str, handle: str, value: str, after: Iterable[str] = ()) -> str:
        """Add the node that sets the copy, after some nodes have run."""
        inputs = [handle, value, *(f"^{node}" for node in after)]
        return nodes.add("AssignVariableOp", name, inputs, device=self.device, dtype=self.variable.dtype)


class ProxyWriter:
    """The work of a server alongside the steps for the copies of its variables.

    Args:
        nodes: Where to add nodes.
        layout: The workers.
        variables: The variables of the step.
        container: Resource container of the variables.
    """

    def __init__(self, nodes: NodeList, layout: Layout, variables: Iterable[Variable], container: str) -> None:
        self._nodes = nodes
        self._layout = layout
        self._variables = {variable.name: variable for variable in variables}
        self._container = container
        self._handles: dict[tuple[str, int], str] = {}

    def update(self, unit: ServedUnit, label: str, after: Sequence[str]) -> list[str]:
        """Add nodes that bring a unit's values to all other workers once some nodes have run; none without proxies."""
        home = self._layout.tf_device(unit.destination)
        return [node for name in unit.proxied for node in self._update(self._variables[name], home, label, after)]

    def _update(self, variable: Variable, home: str, label: str, after: Sequence[str]) -> list[str]:
        name = f"autodist/proxy/{variable.handle}/{label}"
        inputs = [variable.handle, *(f"^{node}" for node in after)]
        value = self._nodes.add("ReadVariableOp", f"{name}/value", inputs, device=home, dtype=variable.dtype)
        assigned = []
        for rank in range(self._layout.world_size):
            if rank != self._layout.rank:
                proxy = Proxy(variable, rank, self._layout.main_device_of(rank))
                handle = self._handles.get((variable.name, rank)) or proxy.handle(self._nodes, self._container)
                self._handles[variable.name, rank] = handle
                assigned.append(proxy.assign(self._nodes, f"{name}/to_{rank}", handle, value))
        return assigned


@dataclass(frozen=True)
class LocalProxies(Kernel):
    """Have this worker read its copies of the variables that the strategy gives a local proxy.

    If the step trains nothing, also of all others that live on other workers.

    Attributes:
        strategy: Says which variables.
        container: Resource container of the variables, the same for all steps that share them.
    """

    name: ClassVar[str] = "local-proxies"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.SERVED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.COPIES})
    strategy: Strategy
    container: str = ""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        layout = graph.layout
        units = units_of(graph, self.strategy)
        elsewhere = {name for unit in units if layout.rank_of(unit.destination) != layout.rank for name in unit.proxied}
        if not any(variable.coupled for variable in graph.variables):
            elsewhere |= {name for name, home in graph.placement.items() if layout.rank_of_tf(home) != layout.rank}
        variables = [v for v in graph.variables if v.name in elsewhere and v.handle in graph.nodes]
        return self._redirected(graph, variables) if variables else graph

    def _redirected(self, graph: DistributedGraph, variables: Sequence[Variable]) -> DistributedGraph:
        nodes = graph.edit()
        main = graph.layout.main_device
        handles: dict[str, str] = {}
        refreshers: dict[str, Refresher] = {}
        for variable in variables:
            proxy = Proxy(variable, graph.layout.rank, main)
            is_made = proxy.handle_name in nodes
            handles[variable.handle] = proxy.handle_name if is_made else proxy.handle(nodes, self.container)
            name = f"autodist/proxy/{variable.handle}/refresh"
            feed = nodes.add("Placeholder", f"{name}/value", device=main, dtype=variable.dtype, shape=variable.shape)
            refreshers[variable.name] = Refresher(proxy.assign(nodes, name, handles[variable.handle], feed), feed)
        readers = graph.analyze().reads
        nodes.redirect(handles, lambda node, _: node.name not in readers)
        return graph.edited(nodes, refreshers={**graph.refreshers, **refreshers})
