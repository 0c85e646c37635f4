"""Replicas that share a step tensor by tensor, so that all of it is as on one device, whatever its loss is.

The plan of `graph/layouts` says for each tensor whether it is cut along the batch, whole, or in parts that make a sum.
What is whole is computed once per worker, all else once per replica; where a tensor is needed in another form, workers
meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodist.graph import (
    GraphEditor,
    NodeList,
    StepAnalysis,
    TrainingGraph,
    data_inputs,
    node_of,
    tensor_dtype,
    tensor_name,
)
from autodist.graph.layouts import (
    WHOLE,
    BatchPlan,
    Cut,
    Entry,
    Layout,
    Part,
    Stretch,
    Tile,
    Way,
    Whole,
    bounds_of_part,
    exchanged_in,
    factor_of,
    is_part_of_mean,
)
from autodist.kernels._base import Combine, DistributedGraph, SyncPoint
from autodist.kernels.replicate._adapted import adapt, open_rows, pass_on
from autodist.kernels.replicate._batch_rows import BatchRows, sizes_without_rows
from autodist.kernels.replicate._counter_based import CounterBasedRandom
from autodist.kernels.replicate._exchange import Exchanges
from autodist.kernels.replicate._filled_functions import fill_functions
from autodist.kernels.replicate._filled_rows import FilledRows
from autodist.kernels.replicate._group_joins import GROUP_TOTAL, GroupJoins
from autodist.kernels.replicate._group_meetings import GroupMeetings
from autodist.kernels.replicate._joins import ROWS, ROWS_POINT, TOTAL, with_layers
from autodist.kernels.replicate._local_outputs import with_whole_composites
from autodist.kernels.replicate._masked_rows import MaskedRows
from autodist.kernels.replicate._moments import MomentsOfReplicas
from autodist.kernels.replicate._only_rows import only_rows
from autodist.kernels.replicate._random_seeds import ReplicaSeeds
from autodist.kernels.replicate._replica_points import ReplicaPoints
from autodist.kernels.replicate._same_batches import BATCHES, compare_batches
from autodist.kernels.replicate._shared_gradients import SharedGradients
from autodist.kernels.replicate._shared_step import SharedStep


def share_batch(
    source: DistributedGraph, graph: TrainingGraph, plan: BatchPlan, meetings: GroupMeetings | None = None
) -> DistributedGraph:
    """The part of a step that a worker computes, with its replicas.

    Args:
        source: The step before replication.
        graph: The same step, with the description of its variables.
        plan: How replicas share it; those of a group, if there are groups.
        meetings: Where groups of replicas meet in it; None where all replicas are one.
    """
    return _Builder(source, graph, plan, meetings).build()


class _Builder:
    def __init__(
        self, source: DistributedGraph, graph: TrainingGraph, plan: BatchPlan, meetings: GroupMeetings | None
    ) -> None:
        self.source = source.replace(outputs=tuple(output.tensor for output in graph.outputs))
        self.graph = graph
        self.plan = plan
        self.analysis: StepAnalysis = graph.analysis
        self.nodes = self.analysis.nodes
        self.layout = source.layout if meetings is None else source.layout.within
        self.count = len(self.layout.local_replicas)
        self.has_batch = bool(self.analysis.split)
        self.out = NodeList(device=self.layout.main_device)
        self.points: list[SyncPoint] = []
        self.groups = None if meetings is None else GroupJoins(meetings, self.out, source.layout, self.points)
        self.meet = ReplicaPoints(self.out, None if meetings is None else source.layout.members, self.points)
        self.checks: list[str] = []
        self.values: dict[tuple[str, Layout], list[str]] = {}
        self.copies: dict[str, list[str]] = {}
        self.editor = GraphEditor.like(self.analysis.graph_def)
        if self.has_batch:
            fill_functions(self.editor.library)
        self.seeds = ReplicaSeeds(self.out, self.editor.library)

    def build(self) -> DistributedGraph:
        """See the module's docstring."""
        same = self._add_rows()
        self.checks.extend([same] if same else [])
        for name in self.plan.order:
            if name not in self.plan.marks:
                self._add(self.nodes[name])
        gradients = SharedGradients(
            self.graph, self.plan, self.out, self.layout, self.exchanges, self._value, self.groups
        )
        self.points.extend(gradients.points())
        outputs = tuple(self._value(tensor, WHOLE)[0] for tensor in self.source.outputs)
        local_outputs = tuple(self._local(tensor) for tensor in self.source.outputs)
        self.editor.extend(self.out.nodes)
        made = self.source.remade(
            self.editor,
            outputs=outputs,
            local_outputs=with_whole_composites(self.graph.outputs, outputs, local_outputs),
            effects=(*self.checks, *(e for n in self.source.effects for e in self.copies[n])),
            feeds=tuple(self._feeds(given) for given in self.graph.inputs),
            borrowed=(None,) * len(self.graph.inputs),
            rows=ROWS if self.has_batch else None,
            total=TOTAL if self.has_batch else None,
            batches=BATCHES if same else None,
            checks=tuple(self.checks),
            exchanged=exchanged_in(self.graph, self.plan),
        )
        return made.replace(points=with_layers(made.index, self.points))

    # The batch ---------------------------------------------------------------------------------------------------

    def _add_rows(self) -> str | None:
        if self.has_batch:
            counts = rows = self.out.add("Placeholder", ROWS, dtype="float32", shape=[self.count])
        else:  # nothing is cut in proportion to the batch
            rows = self.out.constant(ROWS, [1.0] * self.count, "float32")
            counts = self.out.constant(f"{ROWS}/all", [1.0] * self.layout.num_replicas, "float32")
        workers = self.source.layout.world_size
        if workers > 1 and self.has_batch:
            local = self.out.identity("autodist/counts", rows, "float32")
            counts = self.meet.at(ROWS_POINT, Combine.CONCAT, local, "float32", None, is_of_all=True)
        if self.groups is not None:
            counts = self.groups.own_counts(counts, TOTAL)
        total = TOTAL if self.groups is None else GROUP_TOTAL
        if self.graph.fixed_rows is not None:
            rows, check = only_rows(self.out, rows, counts, self.graph.fixed_rows)
            self.checks.append(check)
        self.rows = BatchRows(self.out, self.layout, rows, counts, total)
        step = SharedStep(self.nodes, self.plan, self.out, self.layout, self.rows, self.meet)
        self.exchanges = Exchanges(step)
        self.moments = MomentsOfReplicas(step)
        self.filled = FilledRows(step, in_groups=self.groups is not None)
        self.masked = MaskedRows(step)
        self.by_counter = CounterBasedRandom(self.nodes, self.out, (self.groups or self.rows).starts)
        if workers == 1:
            return None
        return compare_batches(
            self.out,
            workers,
            self.rows.total if self.groups is None else self.groups.total,
            lambda label, local: self.meet.at(label, Combine.SUM, local, "float32", (2,), is_of_all=True),
        )

    def _given(self, node: Any, replica: int) -> str:
        """The feed of a replica, or no rows where it has none: it takes no rows of a borrowed example."""
        dtype, name = tensor_dtype(self.nodes, node.name), f"autodist/given/replica_{replica}/{node.name}"
        none = self.out.constant(f"{name}/none", np.zeros(sizes_without_rows(node.attr["shape"].shape)), dtype)
        given = self._copied(node, name, self.layout.replica_device(replica), [none])
        given.op = "PlaceholderWithDefault"
        given.attr["shape"].shape.dim[0].size = -1  # also in a step for one number of rows: the replica has fewer
        begin, stride = (
            self.out.constant(f"{name}/{what}", [k], "int32") for k, what in enumerate(("begin", "stride"))
        )
        end = self.out.reshape(f"{name}/end", self.rows.own(replica), [1], "int32")
        kinds = {"T": dtype, "Index": "int32", "device": self.layout.replica_device(replica)}
        return self.out.add("StridedSlice", f"replica_{replica}/{node.name}", [name, begin, end, stride], **kinds)

    def _given_part(self, node: Any, way: Way, replica: int) -> str:
        """The feed of a replica for its part of an argument."""
        tile = way.outputs[0]
        assert isinstance(tile, Tile)
        copy = self._copied(node, _part_name(node.name, tile, replica), self.layout.replica_device(replica))
        copy.attr.pop("_output_shapes", None)  # the shape of the whole argument
        length = copy.attr["shape"].shape.dim[tile.dim]
        length.size = self._length(length.size, self.layout.first_replica + replica)
        return str(copy.name)

    def _feeds(self, given: Any) -> tuple[str | None, ...]:
        name = node_of(given.tensor)
        if name not in self.plan.ways:
            return (None,) * self.count
        if given.tiles:
            wanted = [to for way in self.plan.ways[name] for to in way.outputs if isinstance(to, Tile)]
            return tuple(
                _part_name(name, to, r) if to in wanted else None
                for to in map(Tile, given.tiles)
                for r in range(self.count)
            )
        if not given.split:
            return (name,) * self.count
        return tuple(f"autodist/given/replica_{r}/{name}" for r in range(self.count))

    # Nodes -------------------------------------------------------------------------------------------------------

    def _add(self, node: Any) -> None:
        for way in self.plan.ways[node.name]:
            if way.is_whole:
                self._add_whole(node, way)
            else:
                for replica in range(self.count):
                    self._add_part(node, way, replica)
        self._add_moments(node.name)
        for k in range(len(self.plan.ways[node.name][0].outputs)):
            tensor = tensor_name(node.name, k)
            for exchange in self.plan.exchanges.get(tensor, ()):
                if (tensor, exchange.target) not in self.values:
                    values = self._value(tensor, exchange.source)
                    self.values[tensor, exchange.target] = self.exchanges.made(exchange, values)

    def _add_moments(self, name: str) -> None:
        """Add the variance together with a mean at which workers meet, instead of after it."""
        pair = self.moments.pairs.get(name)
        if pair is not None:
            [way] = self.plan.ways[name]
            given, means = self._value(pair.given, way.inputs[0]), self._value(name, way.outputs[0])
            found = self.moments.made(pair, given, means, self._value(pair.dims, WHOLE)[0])
            for tensor, value in zip((pair.mean, pair.variance), found, strict=True):
                self.values[tensor, WHOLE] = [value]

    def _add_whole(self, node: Any, way: Way) -> None:
        sizes = self._sizes(node)
        if sizes is not None:
            self.values.update(((tensor_name(node.name, k), WHOLE), [made]) for k, made in enumerate(sizes))
            self.copies[node.name] = []
            return
        copy = self._copied(node, node.name, self.layout.main_device)
        if way.passes:
            pass_on(copy)
        kept = way.inputs[:1] if way.passes else way.inputs
        given = [(t, self._value(t, WHOLE)[0]) for t, _ in zip(data_inputs(node), kept, strict=False)]
        is_filled = self.groups is not None and self.filled.is_needed(node, way)
        copy.input.extend(self.filled.filled(value, t, WHOLE, None) if is_filled else value for t, value in given)
        copy.input.extend(self._controls(node))
        if node.name in self.analysis.writes:
            copy.input.extend(f"^{check}" for check in self.checks)
        self.seeds.seed(copy)
        made = node.name if self.groups is None else self.groups.made(node, copy)
        self._set(node.name, way, None, made, is_filled=is_filled)

    def _sizes(self, node: Any) -> list[str] | None:
        """The outputs of a node that asks for known sizes; None for another node."""
        if not self.plan.asks(node):
            return None
        found = []
        for k in range(len(self.plan.ways[node.name][0].outputs)):
            tensor = tensor_name(node.name, k)
            dtype = tensor_dtype(self.nodes, tensor)
            entries = self.plan.shapes.numbers(tensor) or ()
            made = self.rows.entries([entry for entry in entries if entry is not None], None, dtype)
            if self.plan.shapes.shape(tensor) == ():
                made = self.out.reshape(f"{node.name}/scalar_{k}", made, [], dtype)
            found.append(made)
        return found

    def _add_part(self, node: Any, way: Way, replica: int) -> None:
        if node.name in self.analysis.split:
            self._set(node.name, way, replica, self._given(node, replica))
            return
        if node.name in self.plan.tiled.inputs:
            self._set(node.name, way, replica, self._given_part(node, way, replica))
            return
        if way.takes_own:
            own = data_inputs(node)[self.layout.first_replica + replica]
            self._set(node.name, way, replica, self._value(own, WHOLE)[0])
            return
        name, copy = self._part_of(node, way, replica)
        if way.draws:
            each = factor_of(self.plan.shapes.shape(node.name))  # elements of a row
            name = self.by_counter.own(node, copy, replica, each)
        if way.masks is not None and way.inputs[0] == Tile(0):
            name = self.masked.looked_up(node, name, replica)
        if is_part_of_mean(node, way):
            name = self._mean(node, copy, replica)
        self._set(node.name, way, replica, name, is_filled=self.filled.is_needed(node, way))

    def _part_of(self, node: Any, way: Way, replica: int) -> tuple[str, Any]:
        """A replica's copy of a node, with its name."""
        name = f"replica_{replica}/{node.name}{self._suffix(node, way)}"
        copy = self._copied(node, name, self.layout.replica_device(replica))
        tensors = data_inputs(node)
        if way.passes:
            pass_on(copy)
            tensors = tensors[:1]
        if any(isinstance(layout, Tile | Stretch) for layout in (*way.inputs, *way.outputs)):
            copy.attr.pop("_output_shapes", None)  # the shapes of the whole tensors
        if way.open_shape:
            open_rows(copy, self.plan.shapes.shape(node.name) or ())
        for k, tensor in enumerate(tensors):
            if k in way.lengths:
                dtype = tensor_dtype(self.nodes, tensor)
                local = self.rows.entries(self._entries(way.lengths[k], replica), replica, dtype)
                scalar = self.plan.shapes.shape(tensor) == ()
                copy.input.append(self.out.reshape(f"{name}/scalar_{k}", local, [], dtype) if scalar else local)
            else:
                found = self._value(tensor, way.inputs[k])
                value = found[0] if isinstance(way.inputs[k], Whole) else found[replica]
                if self.filled.is_needed(node, way):
                    value = self.filled.filled(value, tensor, way.inputs[k], replica)
                copy.input.append(value)
        if way.masks is not None:
            copy.input[way.masks] = self.masked.numbers(node, way, copy.input[way.masks], replica)
        if way.changes:
            change = way.changes[self.layout.first_replica + replica]
            name = adapt(copy, change, tensors, way.lengths, self.nodes, self.out)
        copy.input.extend(self._controls(node))
        return name, copy

    def _entries(self, entries: Sequence[Entry], replica: int) -> list[Entry]:
        """Lengths, those of parts of tiled tensors as a replica has them."""
        part = self.layout.first_replica + replica
        return [self._length(entry.whole, part) if isinstance(entry, Part) else entry for entry in entries]

    def _length(self, whole: int, part: int) -> int:
        begin, end = bounds_of_part(whole, self.plan.tiled.parts, part)
        return end - begin

    def _mean(self, node: Any, copy: Any, replica: int) -> str:
        """A replica's part of a mean: the sum of its elements over the number of all."""
        copy.op = "Sum"
        dtype = tensor_dtype(self.nodes, node.name)
        count = self.rows.elements(node.input[0], node.name, dtype, self.plan.shapes)
        device = self.layout.replica_device(replica)
        return self.out.add("RealDiv", f"{copy.name}/mean", [copy.name, count], T=dtype, device=device)

    def _suffix(self, node: Any, way: Way) -> str:
        """Part of a name: none for the first way in which a node is computed by replicas."""
        parts = [w for w in self.plan.ways[node.name] if not w.is_whole]
        return f"/way_{parts.index(way)}" if parts.index(way) else ""

    def _set(self, name: str, way: Way, replica: int | None, made: str, *, is_filled: bool = False) -> None:
        for k, layout in enumerate(way.outputs):
            tensor, given = tensor_name(name, k), tensor_name(made, k)
            found = self.values.setdefault((tensor, layout), [])
            if replica is None and found:
                continue
            if is_filled:
                given = self.filled.emptied(given, tensor, layout, replica)
            found.append(given)
        self.copies.setdefault(name, []).append(made)

    def _value(self, tensor: str, layout: Layout) -> list[str]:
        tensor = tensor.removesuffix(":0")
        if node_of(tensor) in self.plan.marks:
            return [tensor]
        return self.values[tensor, layout]

    def _copied(self, node: Any, name: str, device: str, inputs: Sequence[str] = ()) -> Any:
        return self.editor[self.editor.clone(node, name, inputs, device=device)]

    def _controls(self, node: Any) -> list[str]:
        """The nodes that a copy waits for: all copies of what the original waits for."""
        names = (node_of(t) for t in node.input if t.startswith("^"))
        return sorted({f"^{node_of(made)}" for name in names for made in self.copies.get(name, ())})

    def _local(self, tensor: str) -> str:
        """An output for local batches: if it has rows, those of this worker before they are gathered."""
        tensor = tensor.removesuffix(":0")
        is_of_groups = self.groups is not None and self.groups.has_rows(tensor)
        if is_of_groups:
            tensor = self.nodes[tensor].input[0].removesuffix(":0")
        exchanges, value = self.plan.exchanges.get(tensor, ()), self._value(tensor, WHOLE)[0]
        if any(e.source == Cut(0) and isinstance(e.target, Whole) for e in exchanges):
            return self.exchanges.local_rows(tensor)
        return self.exchanges.rows_of_worker(tensor, value) if is_of_groups else value


def _part_name(name: str, tile: Tile, replica: int) -> str:
    return f"replica_{replica}/{name}/tile_{tile.dim}"
