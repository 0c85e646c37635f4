"""The coarse graph of a traced step."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autodist.cost.resharding import PARTIAL
from autodist.graph import TrainingGraph, normalize, tensor_name
from autodist.graph.layouts import can_be_made_of_others, made_of_others, with_reads
from autodist.graph.operators import Kind, meaning
from autodist.search.tilings._coarse_graph import (
    CoarseGraph,
    CoarseOperator,
    CoarseTensor,
    Form,
    forms_of,
    linear_forms,
)
from autodist.search.tilings._domains import SMALL_ELEMENTS
from autodist.search.tilings._step_tensors import StepTensors

_FREE = frozenset({Kind.SOURCE, Kind.SHAPE, Kind.VARIABLE, Kind.RANDOM})  # random numbers are drawn on every device
_LINEAR = frozenset({Kind.ELEMENTWISE, Kind.MOVING, Kind.REDUCTION})


@dataclass(frozen=True)
class CoarseStep:
    """The coarse graph of a step, and what of the step its parts are.

    Attributes:
        graph: The coarse graph.
        variables: By name of a variable of more than one element, the coarse tensor that it lies as.
        inputs: By placeholder of an input with a batch, its coarse tensor.
        tensors: By tensor of the step, its coarse tensor.
        whole: The nodes that run whole because it is not known how they can be cut.
    """

    graph: CoarseGraph
    variables: Mapping[str, int]
    inputs: Mapping[str, int]
    tensors: Mapping[str, int]
    whole: tuple[str, ...]


def coarsen(graph: TrainingGraph, examples: int) -> CoarseStep:
    """Return the coarse graph of a step for a number of examples.

    Tensors that must have the same layout are one tensor there. Scalars, constants and values that depend only on sizes
    are left out.

    Raises:
        ValueError: The step can't be for this many examples.
    """
    graph = with_reads(graph, [variable.handle for variable in graph.variables])
    graph = made_of_others(graph, can_be_made_of_others(graph))
    tensors = StepTensors(graph, examples)
    return _Coarsening(graph, tensors).made()


class _Coarsening:
    def __init__(self, graph: TrainingGraph, tensors: StepTensors) -> None:
        self._graph = graph
        self._step = tensors
        self._operators: dict[object, CoarseOperator] = {}
        self._whole: list[str] = []
        self._known_forms: dict[Hashable, tuple[tuple[Form, ...], bool]] = {}
        roots = dict.fromkeys(tensors.alike.of(tensor) for tensor in tensors.shapes)
        self._number = {root: number for number, root in enumerate(roots)}

    def made(self) -> CoarseStep:
        for name in self._graph.analysis.order:
            self._add(self._step.nodes[name])
        operators = tuple(self._operators.values())
        stored: dict[int, list[str]] = {}
        for handle, names in self._step.stored.items():
            stored.setdefault(self._at(handle), []).extend(names)
        partial = self._may_be_partial(operators)
        split = [normalize(i.tensor) for i in self._graph.inputs if i.split]
        rows = {self._at(tensor) for tensor in split if tensor in self._step.shapes}
        coarse = tuple(
            CoarseTensor(
                root, self._step.shapes[root], self._step.item_bytes(root), len(stored.get(number, ())),
                batch_dim=0 if number in rows else None,
                may_be_partial=number in partial and number not in stored,
            )
            for root, number in self._number.items()
        )  # fmt: skip
        used = sorted({t for operator in operators for t in operator.operands} | stored.keys())
        return self._without_unused(coarse, operators, used, stored)

    def _without_unused(
        self,
        coarse: tuple[CoarseTensor, ...],
        operators: tuple[CoarseOperator, ...],
        used: list[int],
        stored: Mapping[int, list[str]],
    ) -> CoarseStep:
        place = {number: at for at, number in enumerate(used)}
        moved = tuple(
            replace(o, inputs=tuple(place[t] for t in o.inputs), outputs=tuple(place[t] for t in o.outputs))
            for o in operators
        )
        inputs = [normalize(i.tensor) for i in self._graph.inputs if i.split]
        found = CoarseGraph(tuple(coarse[number] for number in used), moved, unequal=True)
        return CoarseStep(
            found,
            {name: place[number] for number, names in stored.items() for name in names},
            {t: place[self._at(t)] for t in inputs if t in self._step.shapes and self._at(t) in place},
            {t: place[self._at(t)] for t in self._step.shapes if self._at(t) in place},
            tuple(self._whole),
        )

    def _at(self, tensor: str) -> int:
        return self._number[self._step.alike.of(tensor)]

    def _add(self, node: Any) -> None:
        """Add a node, unless it costs nothing wherever its tensors lie."""
        known, step = meaning(node.op), self._step
        if known.kind in _FREE and known.lookup is None:
            return
        given = list(enumerate(step.inputs(node)))
        made = [(len(given) + k, tensor_name(node.name, k)) for k in range(step.outputs_of(node.name))]
        inputs = [(place, tensor) for place, tensor in given if tensor in step.shapes]
        outputs = [(place, tensor) for place, tensor in made if tensor in step.shapes]
        numbers = {self._at(tensor) for _, tensor in (*inputs, *outputs)}
        if not inputs or not outputs or (len(numbers) == 1 and known.kind is Kind.ELEMENTWISE):
            return
        self._keep(node, inputs, outputs)

    def _keep(self, node: Any, inputs: list[tuple[int, str]], outputs: list[tuple[int, str]]) -> None:
        step, operands = self._step, (*inputs, *outputs)
        key = step.computation_key(node), tuple(place for place, _ in operands)
        if key not in self._known_forms:  # equal layers have many nodes that compute the same
            self._known_forms[key] = self._forms(node, inputs, outputs)
        forms, is_whole = self._known_forms[key]
        if is_whole:
            self._whole.append(node.name)
        small = max(prod(step.shapes[tensor]) for _, tensor in operands) <= SMALL_ELEMENTS
        taken, made = (tuple(self._at(tensor) for _, tensor in some) for some in (inputs, outputs))
        operator = CoarseOperator(node.name, taken, made, forms, may_repeat=small)
        self._operators.setdefault((taken, made, forms), operator)

    def _forms(
        self, node: Any, inputs: list[tuple[int, str]], outputs: list[tuple[int, str]]
    ) -> tuple[tuple[Form, ...], bool]:
        """The forms of a node, and whether it runs whole."""
        step = self._step
        expression = step.expression(node)
        forms: tuple[Form, ...] = ()
        if expression is not None and len(expression.outputs) >= len(outputs):
            forms = forms_of(expression, {place: step.shapes[tensor] for place, tensor in (*inputs, *outputs)})
        is_whole = not forms
        known = meaning(node.op)
        if known.kind in _LINEAR and len(inputs) == len(step.inputs(node)):
            forms += linear_forms(known.linearity, len(inputs), len(outputs))
        elif known.kind in _LINEAR and known.linearity is not None and inputs[0][0] == 0 and len(inputs) == 1:
            forms += linear_forms(known.linearity, 1, len(outputs))
        return forms, is_whole

    def _may_be_partial(self, operators: tuple[CoarseOperator, ...]) -> set[int]:
        """The tensors that may be kept as terms of sums: operators make them so, or they are linear in such ones."""
        bent = {self._at(tensor) for tensor in self._step.bent}
        found: set[int] = set()
        for operator in operators:
            for form in operator.forms:
                states = dict(zip(operator.operands, form.states, strict=True))
                if all(states[t] != PARTIAL or t in found for t in operator.inputs):
                    found |= {t for t in operator.outputs if states[t] == PARTIAL and t not in bent}
        return found
