"""Own parts: a worker has only its replicas' parts of a tiled variable, and updates only those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from autodist.errors import StrategyError
from autodist.graph import data_inputs, node_of, shape_of, tensor_dtype
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._synchronizers import given_to
from autodist.kernels.replicate import ROWS_POINT, with_layers
from autodist.kernels.shard import OF_PARTS, SHAPE_OF_PARTS, shard_name
from autodist.strategies import Strategy, Synchronizer, TileSynchronizer


@dataclass(frozen=True)
class OwnParts(Kernel):
    """Give each part of a tiled variable its home, and leave its update to the worker there.

    Attributes:
        strategy: Says which variables are tiled, and where their parts are.
    """

    name: ClassVar[str] = "own-parts"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS, Fact.KEPT})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.PARTS})
    synchronizer: ClassVar[type[Synchronizer]] = TileSynchronizer
    strategy: Strategy

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        placement = self._placement(graph)
        tiles = {v.name for v in graph.variables if v.piece is not None and v.piece.tiled_for is not None}
        if not placement and not tiles:
            return graph
        graph = graph.replace(placement=graph.placement | placement)
        layout, main = graph.layout, graph.layout.main_device
        parts = [v for v in graph.variables if v.name in placement or v.name in tiles]
        ranks = {v.name: layout.rank_of_tf(graph.placement.get(v.name, main)) for v in parts}
        elsewhere = [v for v in parts if ranks[v.name] != layout.rank]
        away = {v.handle: v.name for v in elsewhere}
        away |= {mark: v.name for v in elsewhere for gradient in v.gradients for mark in gradient.tensors}
        if not away:
            return graph
        own = {v.handle for v in parts if v.name in placement} - away.keys()
        if placement:
            graph = _with_numbers_of_all(graph, ranks)
        graph = _without(graph, away, is_trained=bool(placement))
        return _with_begin_and_end(graph, own) if placement else graph

    def _placement(self, graph: DistributedGraph) -> dict[str, str]:
        """The device of each part, and of its slots."""
        placement: dict[str, str] = {}
        for variable in graph.variables:
            owner = min(variable.owners) if variable.owners else variable.name
            is_own = variable.owners or variable.coupled
            found = given_to(TileSynchronizer, self.strategy, owner) if is_own else None
            if found is not None:
                homes = found.slot_devices if variable.owners else found.devices
                placement[variable.name] = graph.layout.tf_device(homes[graph.layout.group])
        return placement


def _with_numbers_of_all(graph: DistributedGraph, ranks: Mapping[str, int]) -> DistributedGraph:
    """The step in which workers meet where a number of all parts of a variable is made of those that they have.

    Args:
        graph: The step.
        ranks: By part, the worker that has it.
    """
    layout, editor, points = graph.layout, graph.edit(), []
    for name, node in graph.nodes.items():
        if OF_PARTS not in node.attr:
            continue
        made, variable = graph.nodes[node_of(node.input[0])], node.attr[OF_PARTS].s.decode()
        parts = data_inputs(made)
        own = [tensor for k, tensor in enumerate(parts) if ranks[shard_name(variable, k)] == layout.rank]
        if len(own) < len(parts):
            editor.set_inputs(made.name, [*own, *(tensor for tensor in made.input if tensor.startswith("^"))])
            editor[made.name].attr["N"].i = len(own)
            combine = Combine.SUM if made.op == "AddN" else Combine.CONCAT
            shape = shape_of(node.attr[SHAPE_OF_PARTS].shape) if combine is Combine.SUM else None
            dtype, members = tensor_dtype(graph.nodes, name), None if layout.groups == 1 else layout.members
            points.append(SyncPoint(name, None, combine, (made.name,), (name,), (dtype,), (shape,), members=members))
    return graph.edited(editor).replace(points=(*graph.points, *points)) if points else graph


def _with_begin_and_end(graph: DistributedGraph, handles: set[str]) -> DistributedGraph:
    """The step in which own parts change after all workers have begun it, and which ends when all have changed theirs.

    Between two steps any worker may read the parts of another one: they must not be those of the step before, or after.
    """
    rows = [node_of(tensor) for point in graph.points if point.name == ROWS_POINT for tensor in point.synced]
    writes = [name for name, write in graph.analyze().writes.items() if not handles.isdisjoint(write.handles)]
    editor = graph.edit(graph.layout.main_device)
    for name in writes:
        editor.wait_for(name, rows)
    local = editor.constant("autodist/changed", 0.0, "float32")
    editor.wait_for(local, writes)
    synced = editor.identity("autodist/synced/changed", local, "float32")
    changed = SyncPoint("changed", None, Combine.SUM, (local,), (synced,), ("float32",), ((),))
    graph = graph.edited(editor, effects=(*graph.effects, synced))
    # The end awaits nearly all: small ones that nothing else awaits travel together.
    awaited = {point.name: point.awaited for point in with_layers(graph.index, graph.points)}
    points = with_layers(graph.index, [*graph.points, changed])
    return graph.replace(points=tuple(replace(p, awaited=awaited.get(p.name, p.awaited)) for p in points))


def _without(graph: DistributedGraph, away: dict[str, str], *, is_trained: bool) -> DistributedGraph:
    """The step without the writes to other workers' parts; no node waits for these writes.

    Zeros replace the gradients of those parts, which nothing may read. What only waits for such a value, as the end of
    the updates of all variables does, goes on without it.

    A step that trains nothing may need the whole variables: it is given copies of the parts.

    Raises:
        StrategyError: This worker needs one of them in a step that changes it.
    """
    analysis, editor = graph.analyze(), graph.edit()
    gone = [name for name, write in analysis.writes.items() if any(handle in away for handle in write.handles)]
    editor.stop_waiting([*gone, *(_computed_from(graph, away) if is_trained else ())])
    effects = tuple(effect for effect in graph.effects if effect not in set(gone))
    points = [node_of(tensor) for point in graph.points for tensor in (*point.synced, *point.given)]
    outputs = map(node_of, (*graph.outputs, *graph.local_outputs))
    editor.prune([*effects, *points, *outputs, *graph.kept])
    needed = sorted(name for node, name in away.items() if node in editor)
    if needed and is_trained:
        variables = {v.name: v for v in graph.variables}
        variable = variables[needed[0]]
        owner = variables[min(variable.owners, default=variable.name)]  # a slot is cut with what it is for
        whole, cut = variable.whole, owner.whole
        or_else = ", or leave out `served=True`" if cut != whole and graph.layout.groups > 1 else ""
        raise StrategyError(
            f"this step needs all parts of `{whole}` on each worker, which has only its own: it is used in ways in "
            "which a replica can't take its part alone",
            hint=f"keep {'it' if cut == whole else f'`{cut}`'} whole, as by `Tiled(dims=('{cut}=whole',))`{or_else}",
        )
    return graph.edited(editor, effects=effects)


def _computed_from(graph: DistributedGraph, nodes: Iterable[str]) -> list[str]:
    """All nodes with a value that is computed from those of these nodes."""
    found = set(nodes)
    for name in graph.index.order:
        if not found.isdisjoint(map(node_of, data_inputs(graph.index.nodes[name]))):
            found.add(name)
    return sorted(found - set(nodes))
