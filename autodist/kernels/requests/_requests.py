"""Requests: a worker asks other workers to run the nodes of its graph that are on their devices.

Streams carry what every step exchanges at the same place. Workers ask for the rest when they need it: places in the
queues of servers that apply updates alongside the steps; values and rows that are read after an update, in a loop, or
in a branch. TensorFlow's servers would run such nodes as parts of the asking worker's graph, where there are any; but
they carry TensorFlow's collectives alone. Here each node becomes an operation ``AutodistAsk``, which sends what it
needs and receives what it gives. The node itself, with what it reads, goes to the other worker in a small graph of its
own, which is run for each question (:class:`QuestionSet`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from autodist.graph import ancestors, data_inputs, is_stateful, node_of, normalize, output_types, tensor_dtype
from autodist.kernels._base import DistributedGraph, Fact, Kernel
from autodist.kernels._questions import HANDLES, QuestionBuilder, WantedNodes
from autodist.kernels.requests._function_requests import FunctionRequests, find_directly, num_rows
from autodist.strategies import PACK_BYTES
from autodist.transport import register

_ALONE = frozenset({"QueueDequeueV2", "ReadVariableOp"})
"""Ops that need nothing but a handle, so that a worker can ask for several at once."""


@dataclass(frozen=True)
class Requests(Kernel):
    """Asks other workers for the results of nodes that would run on their devices.

    Attributes:
        step: Name of the compiled step, part of the questions' names.
    """

    name: ClassVar[str] = "requests"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.DEVICES})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.OWN})
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        layout, devices = graph.layout, {node.device for node in graph.graph_def.node}
        if all(layout.rank_of_tf(device) == layout.rank for device in devices):
            return graph
        rewriting = _Rewriting(graph, self.step)
        return rewriting.apply() if rewriting.far else graph.edited(rewriting.editor)


class _Rewriting:
    """Rewrites one worker's graph."""

    def __init__(self, graph: DistributedGraph, step: str) -> None:
        self.graph = graph
        self.layout = graph.layout
        self.editor = graph.edit()
        variables = [name for name, node in graph.nodes.items() if node.op == "VarHandleOp"]
        handles = [name for name in variables if self.layout.rank_of_tf(graph.nodes[name].device) != self.layout.rank]
        find_directly(self.editor, handles, self.layout.main_device)
        self.nodes = self.editor.index.nodes.copy()
        self.asking = QuestionBuilder(graph.layout, step, graph.graph_def.library)
        roots = (*map(node_of, (*graph.outputs, *graph.local_outputs)), *graph.effects, *graph.kept)
        self.roots = {root for root in roots if root in self.nodes}
        self.needed = self.editor.index.ancestors(self.roots)
        rank_of = cache(self.layout.rank_of_tf)
        ranks = {name: rank_of(self.nodes[name].device) for name in self.needed}
        self.far = {name: rank for name, rank in ranks.items() if rank != self.layout.rank}
        """By node on another worker's device, that worker."""
        self.parts: dict[str, list[str]] = {}
        """By node that is asked for, the node itself and those that are run along with it, inputs first."""
        self.within: dict[str, list[str]] = {}
        """By node that is run along with others, the nodes that are asked for."""
        self._repeats: dict[str, bool] = {}
        self._ancestors: dict[str, set[str]] = {}

    def apply(self) -> DistributedGraph:
        register()
        asked_for = self._asked_for()
        for name in asked_for:
            self.parts[name] = self._part(name)
            for member in self.parts[name]:
                self.within.setdefault(member, []).append(name)
        for group in self._groups(asked_for):
            self._ask(group)
        readers = {reader for name in self.far for reader in self.editor.readers(name)} & self.needed - self.far.keys()
        inputs = {name: self._inputs(name) for name in self.nodes if name in readers}  # before any of them changes
        functions = FunctionRequests(self.editor, self.asking)
        for name, taken in inputs.items():
            self.editor.set_inputs(name, taken)
            handles = {t: self.nodes[node_of(t)] for t in data_inputs(self.nodes[name]) if node_of(t) in self.far}
            functions.rewrite(self.nodes[name], {t: (found, self.far[found.name]) for t, found in handles.items()})
        self.editor.remove(self.far)
        self.editor.extend(self.asking.nodes.nodes)
        return self.graph.edited(self.editor, asks=self.asking.asked())

    # What is asked for ---------------------------------------------------------------------------------------------

    def _asked_for(self) -> list[str]:
        """The nodes whose results, or effects, this worker needs, in the order of the graph."""
        taken = {
            node_of(tensor)
            for name in self.needed
            for tensor in data_inputs(self.nodes[name])
            if self.far.get(name) != self.far.get(node_of(tensor))
        }
        wanted = taken | self.roots
        far = (node for name, node in self.nodes.items() if name in self.far and node.op not in HANDLES)
        return [node.name for node in far if node.name in wanted or not self._may_repeat(node.name, node)]

    def _may_repeat(self, name: str, node: Any) -> bool:
        """Whether a node may be run several times, once for each node that needs it: handles and reads, not writes."""
        if name not in self._repeats:
            changes_nothing = node.op in HANDLES or node.op == "ReadVariableOp" or not is_stateful(node.op)
            is_alone = all(self._goes_along(node_of(t), self.far.get(name)) for t in data_inputs(node))
            self._repeats[name] = changes_nothing and is_alone
        return self._repeats[name]

    def _goes_along(self, name: str, owner: int | None) -> bool:
        """Whether a worker may run a node itself that another one needs there."""
        node = self.nodes[name]
        if node.op == "Const":
            return not node.input
        return owner is not None and self.far.get(name) == owner and self._may_repeat(name, node)

    def _part(self, name: str) -> list[str]:
        found: dict[str, None] = {}

        def add(member: str) -> None:
            for source in map(node_of, data_inputs(self.nodes[member])):
                if source not in found and self._goes_along(source, self.far[name]):
                    add(source)
            found[member] = None

        add(name)
        return list(found)

    def _groups(self, names: Iterable[str]) -> list[list[str]]:
        """Nodes that one question asks for: of one kind, without needs, and with the same waits."""
        groups: list[list[str]] = []
        latest: dict[Any, tuple[list[str], int]] = {}
        sizes = {variable.handle: variable.size_bytes for variable in self.graph.variables}
        for name in names:
            node = self.nodes[name]
            key = self.far[name], node.op, tuple(self._waits([name]))
            group, size = latest.get(key, ([], 0))
            size += sizes.get(node_of(node.input[0]), 0) if node.op in _ALONE else 0
            if not group or node.op not in _ALONE or size > PACK_BYTES:
                group, size = [], 0
                groups.append(group)
            group.append(name)
            latest[key] = group, size
        return groups

    def _ask(self, group: Sequence[str]) -> None:
        nodes, first = self.nodes, group[0]
        members = list(dict.fromkeys(member for name in group for member in self.parts[name]))
        taken = (normalize(t) for m in members for t in data_inputs(nodes[m]) if node_of(t) not in members)
        given = {tensor: tensor_dtype(nodes, tensor) for tensor in taken}
        results = [
            (f"{name}:{k}", tensor_dtype(nodes, f"{name}:{k}"))
            for name in group
            for k in range(len(output_types(nodes[name])))
        ]
        wanted = WantedNodes([nodes[member] for member in members], given, results, () if results else group)
        is_one = len(group) == 1
        name = first if is_one else f"autodist/asked/{first}"
        below = num_rows(nodes[first], nodes[members[0]]) if is_one else -1
        self.asking.ask(name, self.far[first], wanted, self._waits(group), below)
        if not is_one:
            for k, (tensor, dtype) in enumerate(results):
                self.asking.nodes.identity(node_of(tensor), f"{name}:{k}", dtype)

    # What waits for what -------------------------------------------------------------------------------------------

    def _waits(self, names: Sequence[str]) -> list[str]:
        """The nodes that some nodes, and those that are run along with them, wait for."""
        members = {member for name in names for member in self.parts[name]}
        before = dict.fromkeys(t for member in members for t in self.nodes[member].input if t.startswith("^"))
        found = dict.fromkeys(wait for tensor in before for wait in self._instead(tensor, names))
        return sorted(wait for wait in found if wait[1:] not in members)

    def _inputs(self, name: str) -> list[str]:
        """The inputs of a node of this worker, which waits for answers instead of for nodes on other workers."""
        tensors = data_inputs(self.nodes[name])
        waits = self.nodes[name].input[len(tensors) :]
        return [*tensors, *(wait for tensor in waits for wait in self._instead(tensor, [name]))]

    def _instead(self, tensor: str, waiting: Sequence[str]) -> list[str]:
        """The nodes to wait for instead of another one: those that it is run along with, unless they come later."""
        name = node_of(tensor)
        if name not in self.far:
            return [tensor]
        asked = self.within.get(name, ())
        return [f"^{one}" for one in asked if one == name or not self._comes_before(waiting, one)]

    def _comes_before(self, names: Iterable[str], later: str) -> bool:
        if later not in self._ancestors:
            self._ancestors[later] = ancestors(self.nodes, [later])
        return not self._ancestors[later].isdisjoint(names)
