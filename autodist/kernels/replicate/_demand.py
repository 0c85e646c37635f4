"""The nodes of a step that are computed once per worker, and those that are computed once per replica."""

from __future__ import annotations

from functools import cached_property

from autodist.graph import (
    BatchScaling,
    StepAnalysis,
    TrainingGraph,
    data_inputs,
    draws_inside,
    node_of,
    reduction_of_met,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.operators import Kind, is_kind


class NodeDemand:
    """The nodes that the worker and its replicas need, and the tensors at which replicas meet.

    Attributes:
        analysis: The step.
        worker: The nodes that are computed once per worker.
        replica: The nodes that are computed once per replica.
        cuts: The tensors that are joined, each with the scaling by which they are.
        inexact: By node whose joined value differs from that of one device, the scaling by which it is joined.
        intermediate: Marks whose gradients replicas compute with.
    """

    def __init__(self, analysis: StepAnalysis, graph: TrainingGraph) -> None:
        self.analysis = analysis
        self.worker: set[str] = set()
        self.replica: set[str] = set()
        self.cuts: dict[str, BatchScaling] = {}
        self.inexact: dict[str, str] = {}
        self._stack: list[tuple[str, bool]] = []
        self._shared: list[str] = []
        for effect in graph.effects:
            self._effect(effect)
        for output in graph.outputs:
            self._stack.append((output.tensor, True))
        self._run()
        self.intermediate = self._find_intermediate()

    @cached_property
    def taken(self) -> dict[str, tuple[str, ...]]:
        """By gradient that depends on the batch, the differentiated tensors; itself if no tape has taken it."""
        marks = sorted(self.cuts.keys() & self.analysis.marks.keys())
        by_tensors = (name for name in self.analysis.by_tensors if name in self.cuts or name in self.replica)
        return {name: self.analysis.taken_of(name) for name in (*marks, *by_tensors)}

    @property
    def losses(self) -> tuple[str, ...]:
        """The tensors that the step differentiates, as far as their gradients depend on the batch."""
        return tuple(dict.fromkeys(tensor for found in self.taken.values() for tensor in found))

    @cached_property
    def draws(self) -> tuple[str, ...]:
        """The results of replicas with random numbers that they draw, loops included."""
        nodes = [self.analysis.nodes[name] for name in self.analysis.order if name in self.replica]
        inside = draws_inside(self.analysis.graph_def, nodes)
        return (*(node.name for node in nodes if is_kind(node.op, Kind.RANDOM)), *inside)

    def _effect(self, name: str) -> None:
        inputs = data_inputs(self.analysis.nodes[name])
        evaluable = all(self.analysis.dependence.is_evaluable(tensor) for tensor in inputs)
        in_worker = name in self.analysis.writes or evaluable
        (self.worker if in_worker else self.replica).add(name)
        self._stack.extend((tensor, in_worker or not self.from_replica(tensor, name)) for tensor in inputs)

    def _run(self) -> None:
        while self._stack:
            tensor, in_worker = self._stack.pop()
            if in_worker:
                self._demand_in_worker(tensor)
            else:
                self._demand_in_replica(tensor)

    def _demand_in_worker(self, tensor: str) -> None:
        name = node_of(tensor)
        if name in self.analysis.marks and self._from_batch(name):
            if name not in self.cuts:
                self.cuts[name] = BatchScaling.ROWS  # the gradient's own combination follows from its kind
                self._stack.append((self.analysis.nodes[name].input[0], False))
            return
        if name in self.analysis.joined and self._from_batch(name):
            if name not in self.cuts:
                self.cuts[name] = BatchScaling.SUM
                self._stack.append((self.analysis.nodes[name].input[0], False))
            return
        dependence, scaling = self.analysis.dependence, self.analysis.scaling(tensor)
        if scaling is BatchScaling.CONSTANT:
            self._add(name)
            return
        is_cut = dependence.is_reduced(tensor) or dependence.is_in_order(tensor)
        is_computed = dependence.is_computable(tensor) or dependence.is_of_values(tensor)
        if is_computed and not is_cut:
            self._add(name)
        elif tensor not in self.cuts:
            self.cuts[tensor] = scaling if is_cut else self._inexact(tensor)
            self._stack.append((tensor, False))

    def _demand_in_replica(self, tensor: str) -> None:
        name = node_of(tensor)
        if name not in self.analysis.scalings:
            self._shared.append(name)
            self._stack.append((tensor, True))
        elif name not in self.replica:
            self.replica.add(name)
            for source in data_inputs(self.analysis.nodes[name]):
                in_worker = not self.from_replica(source, name)
                self._shared.extend([node_of(source)] if in_worker else [])
                self._stack.append((source, in_worker))

    def from_replica(self, tensor: str, consumer: str) -> bool:
        """Whether a node's copy in a replica takes that replica's value of a tensor, rather than the worker's."""
        dependence = self.analysis.dependence
        if node_of(tensor) not in dependence.scalings:
            return False
        return not (dependence.is_global(tensor) and dependence.uses_global(consumer))

    def _find_intermediate(self) -> frozenset[str]:
        """Marks whose gradients replicas compute with: inner gradients of second derivatives."""
        seen: set[str] = set()
        stack = self._shared
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self.cuts:
                stack.extend(node_of(tensor) for tensor in data_inputs(self.analysis.nodes[name]))
        return frozenset(seen & self.analysis.marks.keys() & self.cuts.keys())

    def _add(self, name: str) -> None:
        if name not in self.worker:
            self.worker.add(name)
            self._stack.extend((tensor, True) for tensor in data_inputs(self.analysis.nodes[name]))

    def _from_batch(self, mark: str) -> bool:
        """Whether a mark has another value on each replica; row numbers that all have alike are not joined."""
        scaling = self.analysis.scaling(self.analysis.nodes[mark].input[0])
        is_of_rows = mark in self.analysis.marks and self.analysis.marks[mark].part == "indices"
        return scaling is not BatchScaling.CONSTANT and not (is_of_rows and scaling is BatchScaling.SAME)

    def is_of_same_rows(self, mark: str) -> bool:
        """Whether a part of a sparse gradient is of rows that are the same on all replicas, whatever their examples.

        The numbers of the rows need not be demanded: a step may use the values alone.
        """
        marks = self.analysis.marks
        gradient = marks[mark].gradient
        numbers = [name for name, other in marks.items() if other.gradient == gradient and other.part == "indices"]
        return bool(numbers) and not any(map(self._from_batch, numbers))

    def _inexact(self, tensor: str) -> BatchScaling:
        """The scaling by which replicas' values of a tensor are joined to one that differs from that of one device."""
        shape = tensor_shape(self.analysis.nodes, tensor)
        dtype = tensor_dtype(self.analysis.nodes, tensor)
        chosen, way = BatchScaling.SAME, "the first replica's"
        if shape is None or shape.count(None) == 1:
            chosen, way = BatchScaling.ROWS, "the replicas', one after another"
        elif None not in shape and dtype.startswith(("float", "bfloat")):
            chosen, way = BatchScaling.MEAN, "averaged over the replicas"
            if reduction_of_met(self.analysis.dependence, tensor) == "sum":
                chosen, way = BatchScaling.SUM, "added over the replicas"
        name = node_of(tensor)
        while self.analysis.nodes[name].op == "Identity":  # of a returned tensor; the user knows what it returns
            name = node_of(self.analysis.nodes[name].input[0])
        self.inexact[name] = way
        return chosen
