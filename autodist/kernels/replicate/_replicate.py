"""Replicate: copy what depends on the batch to every local replica, and join the copies where they meet again.

Starting from what the step must deliver (its effects and outputs), each tensor is demanded in one of two contexts:

* of the *worker*: once per worker, equal on all workers. What does not depend on the batch, what lies after a
  gradient's mark, and whatever is computed from sums and means over the batch belongs here;
* of a *replica*: once per replica, from that replica's part of the batch.

Where the worker's context demands a tensor that only replicas have, a :class:`SyncPoint` joins their values by the
tensor's scaling: sums are added, means averaged by batch share, rows concatenated. Gradients are means (of a loss that
is a mean) or sums, as the caller says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.errors import FixedRowsError, StrategyError
from autodist.graph import (
    ROWLIKE,
    BatchScaling,
    GraphEditor,
    NodeList,
    StepAnalysis,
    TrainingGraph,
    data_inputs,
    node_of,
    tensor_dtype,
)
from autodist.graph.batch import BY_REPLICA
from autodist.graph.layouts import BatchPlan, NoPlanError, TiledVariables, plan_batch
from autodist.kernels._base import DistributedGraph, Fact, Kernel
from autodist.kernels._layout import Layout
from autodist.kernels.replicate._counter_based import CounterBasedRandom
from autodist.kernels.replicate._demand import NodeDemand
from autodist.kernels.replicate._group_meetings import GroupMeetings
from autodist.kernels.replicate._joins import ROWS, TOTAL, ReplicaJoins, with_layers
from autodist.kernels.replicate._local_outputs import with_whole_composites
from autodist.kernels.replicate._not_shared import (
    counted_draws,
    refuse_apart,
    refuse_statistics,
    refuse_writes,
    writes_by_replicas,
)
from autodist.kernels.replicate._random_seeds import ReplicaSeeds
from autodist.kernels.replicate._same_batches import BATCHES
from autodist.kernels.replicate._share_batch import share_batch
from autodist.kernels.replicate._warnings import inexact_of, notes_of, notes_of_halves, warnings_of

_ONE_GROUP = "leave out `groups=`, or give a mesh of `keras.distribution` one axis; or "


@dataclass(frozen=True)
class Replicate(Kernel):
    """Copy the graph to the local replicas.

    Attributes:
        graph: The step, with the description of its variables and outputs.
        gradient_reduction: ``"mean"`` where the loss is a mean over the batch, ``"sum"`` where it is a sum, ``"auto"``
            to find out.
        own_state: Whether outputs, metrics and statistics are joined over this worker's replicas only: then no worker
            waits for another's.
    """

    name: ClassVar[str] = "replicate"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.SHARDS, Fact.FACTORS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS})
    graph: TrainingGraph
    gradient_reduction: str = "auto"
    own_state: bool = False

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        if graph.layout.is_alone:
            return graph
        analysis = self.graph.analysis
        demand = NodeDemand(analysis, self.graph)
        if self.graph.shares_examples:
            self._check_shares(graph.layout)
        halves = () if self.own_state else notes_of_halves(self.graph)
        grouped = self._in_groups(graph, demand) if graph.layout.groups > 1 else None
        if grouped is not None:
            return grouped.replace(notes=(*grouped.notes, *halves))
        plan = self._exact_plan(graph, demand)
        if plan is not None:
            shared = share_batch(graph, self.graph, plan)
            return shared.replace(notes=(*shared.notes, *halves))
        if self.graph.fixed_rows is not None:
            raise FixedRowsError(f"the step is for batches of {self.graph.fixed_rows} rows only, replicas have fewer")
        refuse_writes(analysis, demand, self.graph)
        copied = _Copier(self, graph, analysis, demand).build()
        return copied.replace(notes=(*copied.notes, *halves))

    def _exact_plan(self, graph: DistributedGraph, demand: NodeDemand) -> BatchPlan | None:
        """How replicas share a step tensor by tensor; None for one in which each computes the loss of its own rows.

        It is shared where examples meet, and for random numbers that no counter gives; with batch normalization by
        replica only if replicas then need nothing of each other before they have their gradients.
        """
        arguments = TiledVariables.of_arguments(self.graph, graph.layout.num_replicas)
        tiled = TiledVariables.of(self.graph)
        if arguments.parts:  # next to variables of which groups have the parts, which are read whole
            known = tiled if tiled.parts == arguments.parts else TiledVariables()
            return plan_batch(self.graph, known.with_arguments(arguments))
        if tiled.parts and graph.layout.groups == 1:
            return self._tiled_plan(demand, tiled, graph.layout)
        synchronized = [name for name in demand.analysis.synchronized if name in demand.replica]
        if self.own_state or self.gradient_reduction != "auto" or not demand.analysis.split:
            why = "replicas combine the gradients of their own losses"
            refuse_statistics(self.graph, synchronized, why, "leave out `gradient_reduction=`")
            return None
        is_fixed = self.graph.fixed_rows is not None
        is_needed = is_fixed or bool(synchronized or inexact_of(self.graph, demand) or writes_by_replicas(demand))
        if not is_needed and len(counted_draws(demand)) == len(demand.draws):
            return None  # replicas can draw what one device does, and need nothing else
        try:
            plan = plan_batch(self.graph)
        except NoPlanError as error:
            refuse_statistics(self.graph, synchronized, f"{error}", "compute what is named in a step of its own")
            refuse_apart(self.graph, demand, error)
            return None
        is_by_replica = any(BY_REPLICA in demand.analysis.nodes[name].attr for name in demand.replica)
        return plan if is_needed or plan.is_apart or not is_by_replica else None

    def _in_groups(self, graph: DistributedGraph, demand: NodeDemand) -> DistributedGraph | None:
        """The step that groups share, and replicas of a group tensor by tensor; None without tiled variables."""
        tiled = TiledVariables.of(self.graph)
        if not tiled.parts:
            return None
        with self._refused(tiled, in_groups=True):
            self._check_exact(demand)
            meetings = GroupMeetings.of(self.graph, demand)
            _check_parts(tiled, graph.layout)
            tiled = TiledVariables.of(meetings.graph).in_groups(graph.layout.groups, meetings.names)
            return share_batch(graph, meetings.graph, plan_batch(meetings.graph, tiled), meetings)
        return None

    def _check_shares(self, layout: Layout) -> None:
        """Check that replicas may share each example, or the arrays of a function, which may read what groups have."""
        reasons = {
            "servers apply updates without waiting for all workers": self.own_state,
            "a worker has no replica": not all(layout.replicas),
            "replicas are in groups": layout.groups > 1 and bool(self.graph.trainable),
        }
        found = [reason for reason, holds in reasons.items() if holds]
        if found:
            raise StrategyError(f"replicas have parts of arguments, and {' and '.join(found)}")

    def _check_exact(self, demand: NodeDemand) -> None:
        """Check that replicas may share the step tensor by tensor."""
        if self.own_state or self.gradient_reduction != "auto" or not demand.analysis.split:
            raise NoPlanError("replicas combine the gradients of their own losses")

    @contextlib.contextmanager
    def _refused(self, tiled: TiledVariables, *, in_groups: bool = False) -> Iterator[None]:
        """Refuse a step that trains tiled variables, where there is no plan; others may go on without one."""
        try:
            yield
        except NoPlanError as error:
            if tiled.gradients:
                raise StrategyError(
                    f"variables are tiled, and this step can't be shared tensor by tensor: {error}",
                    hint=f"{_ONE_GROUP if in_groups else ''}take a strategy without tiled variables, synchronous and "
                    "without `gradient_reduction=`",
                ) from error

    def _tiled_plan(self, demand: NodeDemand, tiled: TiledVariables, layout: Layout) -> BatchPlan | None:
        """The plan of a step with tiled variables: one that trains them can't be shared in another way."""
        with self._refused(tiled):
            self._check_exact(demand)
            try:
                _check_parts(tiled, layout)
                return plan_batch(self.graph, tiled)
            except NoPlanError as error:
                if not tiled.gradients:
                    refuse_apart(self.graph, demand, error)
                raise
        return None


def _check_parts(tiled: TiledVariables, layout: Layout) -> None:
    """Check that each replica of a group has one part of each tiled variable."""
    if tiled.parts * layout.groups != layout.num_replicas:
        raise NoPlanError(f"variables are cut into {tiled.parts} parts, by steps with other groups of replicas")


class _Copier:
    """Builds the replicated graph from the demanded nodes."""

    def __init__(self, kernel: Replicate, graph: DistributedGraph, analysis: StepAnalysis, demand: NodeDemand) -> None:
        self.kernel = kernel
        self.source = graph
        self.layout = graph.layout
        self.analysis = analysis
        self.demand = demand
        self.count = len(graph.layout.local_replicas)
        self.out = NodeList(device=self.layout.main_device)
        own_state = kernel.own_state and self.layout.world_size > 1
        self.counted = {} if own_state else counted_draws(demand)
        is_placed = bool(self.counted)
        self.joins = ReplicaJoins(analysis, demand, graph, self.out, kernel.gradient_reduction, own_state, is_placed)
        self.casts: set[str] = set()
        self.shapes = {v.name: v.shape for v in graph.variables}
        self.copies = GraphEditor.like(analysis.graph_def)
        self.seeds = ReplicaSeeds(self.out, self.copies.library)
        self.joins.build()
        split = [node_of(given.tensor) for given in kernel.graph.inputs if given.split]
        self.borrowed = {
            name: self.joins.borrowed(name, analysis.nodes[name]) for name in split if name in demand.replica
        }

    def build(self) -> DistributedGraph:
        self._copy_worker_nodes()
        for replica in range(self.count):
            self._copy_replica_nodes(replica)
        self.copies.extend(self.out.nodes)
        found = warnings_of(self.kernel.graph, self.demand, self.kernel.gradient_reduction)
        outputs = tuple(self._worker_tensor(tensor) for tensor in self.source.outputs)
        local_outputs = tuple(self._local_tensor(tensor) for tensor in self.source.outputs)
        made = self.source.remade(
            self.copies,
            outputs=outputs,
            local_outputs=with_whole_composites(self.kernel.graph.outputs, outputs, local_outputs),
            effects=self._effects(),
            feeds=self._feeds(),
            borrowed=tuple(self.borrowed.get(node_of(g.tensor), (None,))[0] for g in self.kernel.graph.inputs),
            rows=ROWS,
            total=TOTAL,
            batches=BATCHES if self.joins.checks else None,
            checks=self.joins.checks,
            loss_meets=bool(self.analysis.dependence.meetings(self.demand.losses)),
            warnings=tuple(dict.fromkeys((*self.source.warnings, *found))),
            notes=notes_of(self.demand, self.counted, (of.name for of in self.source.variables)),
        )
        return made.replace(points=with_layers(made.index, self.joins.points))

    # Copies ------------------------------------------------------------------------------------------------------

    def _worker_tensor(self, tensor: str) -> str:
        return self.joins.renamed.get(tensor, tensor)

    def _replica_input(self, tensor: str, consumer: str, replica: int) -> str:
        if self.demand.from_replica(tensor, consumer):
            return self.joins.replica_tensor(tensor, replica)
        return self._worker_tensor(tensor)

    def _local_tensor(self, tensor: str) -> str:
        """An output for local batches: rows of this worker only."""
        if self.demand.cuts.get(tensor) in (BatchScaling.ROWS, BatchScaling.SUBSET) and tensor in self.joins.renamed:
            synced = self.joins.renamed[tensor]
            return next((p.local[0] for p in self.joins.points if p.synced[0] == synced), synced)
        return self._worker_tensor(tensor)

    def _copy_worker_nodes(self) -> None:
        for name in self.analysis.order:
            if name not in self.demand.worker:
                continue
            inputs = [self._worker_tensor(t) for t in data_inputs(self.analysis.nodes[name])]
            inputs += self._controls(name, None)
            if name in self.analysis.writes:
                inputs += [f"^{check}" for check in self.joins.checks]
            self.seeds.seed(self._copied(name, name, self.layout.main_device, inputs))

    def _copy_replica_nodes(self, replica: int) -> None:
        for name in self.analysis.order:
            if name not in self.demand.replica:
                continue
            is_counted = name in self.counted
            new_name = f"replica_{replica}/{name}"
            copy = self._copied(
                name, f"{new_name}/drawn" if is_counted else new_name, self.layout.replica_device(replica)
            )
            inputs = [self._replica_input(t, name, replica) for t in data_inputs(self.analysis.nodes[name])]
            by_row = self.analysis.scalings[name][0] in ROWLIKE and not is_counted
            self.seeds.vary(copy, inputs, self.layout.first_replica + replica, by_row=by_row)
            if name in self.borrowed:
                inputs = [self._given(copy, name, replica)]
            factor = self.joins.factor(name, replica)
            if factor is not None:
                op, number = factor
                _make_product(copy, op)
                inputs = [inputs[0], number]
            self.copies.set_inputs(copy.name, [*inputs, *self._controls(name, replica)])
            if is_counted:
                self._draw_own_rows(name, copy, replica)

    def _draw_own_rows(self, name: str, copy: Any, replica: int) -> None:
        """Have a replica's copy of a draw give what one device draws for the replica's rows."""
        assert self.joins.first_rows is not None
        by_counter = CounterBasedRandom(self.analysis.nodes, self.out, self.joins.first_rows)
        drawn = by_counter.own(self.analysis.nodes[name], copy, replica, self.counted[name])
        self.copies.set_inputs(copy.name, list(copy.input))
        dtype = tensor_dtype(self.analysis.nodes, name)
        self.out.add("Identity", f"replica_{replica}/{name}", [drawn], T=dtype, device=copy.device)

    def _given(self, copy: Any, name: str, replica: int) -> str:
        """Have a replica's copy of an input take the feed, or else the borrowed rows; returns the placeholder to feed.

        Nothing but the copy may take it: a node that waits for a ``PlaceholderWithDefault`` has TensorFlow compute the
        default even if it is fed, and then the borrowed rows have not been fed.
        """
        inputs = [self.borrowed[name][1]]
        given = self.copies.clone(copy, _given_name(name, replica), inputs, device=copy.device, without=())
        self.copies[given].op = "PlaceholderWithDefault"
        copy.op = "Identity"
        copy.attr["T"].CopyFrom(copy.attr["dtype"])
        del copy.attr["dtype"], copy.attr["shape"]
        return given

    def _copied(self, name: str, new_name: str, device: str, inputs: Iterable[str] = ()) -> Any:
        node = self.analysis.nodes[name]
        return self.copies[self.copies.clone(node, new_name, inputs, device=device, without=["_class"])]

    def _controls(self, name: str, replica: int | None) -> list[str]:
        """The nodes that a copy waits for: the copies of what the original waits for."""
        waits: set[str] = set()
        seen: set[str] = set()
        stack = [t[1:] for t in self.analysis.nodes[name].input if t.startswith("^")]
        while stack:
            other = stack.pop()
            if other in seen:
                continue
            seen.add(other)
            if self.analysis.nodes[other].op == "NoOp":
                stack.extend(node_of(t) for t in self.analysis.nodes[other].input)
                continue
            if other in self.demand.worker:
                waits.add(f"^{other}")
            if other in self.demand.replica:
                copies = range(self.count) if replica is None else (replica,)
                waits.update(f"^replica_{r}/{other}" for r in copies)
        return sorted(waits)

    def _effects(self) -> tuple[str, ...]:
        found = list(self.joins.checks)
        for name in self.source.effects:
            if name in self.demand.worker:
                found.append(name)
            if name in self.demand.replica:
                found.extend(f"replica_{r}/{name}" for r in range(self.count))
        return tuple(found)

    def _feeds(self) -> tuple[tuple[str | None, ...], ...]:
        feeds: list[tuple[str | None, ...]] = []
        for step_input in self.kernel.graph.inputs:
            name = node_of(step_input.tensor)
            if step_input.split:
                used = name in self.demand.replica
                feeds.append(tuple(_given_name(name, r) if used else None for r in range(self.count)))
            else:
                feeds.append((name if name in self.demand.worker else None,) * self.count)
        return tuple(feeds)


def _make_product(copy: Any, op: str) -> None:
    """Have a copy of a node that passes on its first input multiply it with a second one, or divide by that."""
    kinds = copy.attr["T"].list.type
    dtype = kinds[0] if kinds else copy.attr["T"].type
    copy.op = op
    del copy.attr["T"]
    copy.attr["T"].type = dtype
    del copy.attr["_output_shapes"].list.shape[1:]


def _given_name(name: str, replica: int) -> str:
    """The name of the replica's feed for an input."""
    return f"autodist/given/replica_{replica}/{name}"
