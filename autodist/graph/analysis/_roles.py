"""Roles of variables, and which of them are coupled: derived from what is written from what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from autodist.graph._graph_def import data_inputs, node_of
from autodist.graph._variables import Gradient, Role, Variable
from autodist.graph.analysis._batch_scaling import BatchScaling
from autodist.graph.analysis._step_analysis import StepAnalysis
from autodist.graph.operators import meaning


@dataclass(frozen=True)
class BareVariable:
    """A captured variable before its role is known."""

    name: str
    handle: str
    shape: tuple[int, ...]
    dtype: str
    content: str | None = None


class _Groups:
    """Union-find over positions."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def find(self, item: int) -> int:
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def join(self, items: Sequence[int]) -> None:
        for item in items[1:]:
            self.parent[self.find(item)] = self.find(items[0])


def assign_roles(
    analysis: StepAnalysis,
    variables: Sequence[BareVariable],
    gradient_handles: dict[int, str],
    outputs: Sequence[str],
    without: Iterable[str] = frozenset(),
) -> tuple[Variable, ...]:
    """The variables with their roles, gradients, owners and couplings.

    Args:
        analysis: The flat step.
        variables: All captured variables, in capture order.
        gradient_handles: By gradient number of the marks, the handle placeholder of the variable.
        outputs: Tensors that the step returns: one that depends on several gradients couples their variables as well.
        without: Nodes that couple nothing, because all workers have their values, wherever gradients are.
    """
    roles = _Roles(analysis, variables, gradient_handles, without)
    return roles.build(outputs)


class _Roles:
    def __init__(
        self,
        analysis: StepAnalysis,
        variables: Sequence[BareVariable],
        gradient_handles: dict[int, str],
        without: Iterable[str],
    ) -> None:
        self.analysis = analysis
        self.variables = variables
        self.gradients = self._gradients(gradient_handles)
        self.trainable = [v.handle for v in variables if v.handle in self.gradients]
        position = {handle: k for k, handle in enumerate(self.trainable)}
        self.position = position
        mark_bit = dict.fromkeys(without, 0) | {
            name: 1 << position[gradient_handles[mark.gradient]]
            for name, mark in analysis.marks.items()
            if gradient_handles.get(mark.gradient) in position
        }
        self.slot_bits: dict[str, int] = {}
        self.bits = analysis.gradient_bits(mark_bit)
        while (found := self._written_bits(self.bits)) != self.slot_bits:  # a slot may be computed from another one
            self.slot_bits = found
            self.bits = analysis.gradient_bits(mark_bit, found)

    def _gradients(self, gradient_handles: dict[int, str]) -> dict[str, tuple[Gradient, ...]]:
        """By handle, the gradients in the order in which they were taken."""
        parts: dict[int, dict[str, str]] = {}
        for name, mark in self.analysis.marks.items():
            parts.setdefault(mark.gradient, {})[mark.part] = name
        found: dict[str, tuple[Gradient, ...]] = {}
        for number in sorted(parts):
            handle = gradient_handles[number]
            found[handle] = (*found.get(handle, ()), Gradient(**parts[number]))
        return found

    def _written_bits(self, bits: dict[str, int]) -> dict[str, int]:
        """By handle, the gradients that writes to it depend on, and those of variables that are changed along with it.

        A branch or a loop that changes a trainable variable runs where this one lives, and changes there what it does.
        """
        found: dict[str, int] = {}
        for write in self.analysis.writes.values():
            along = [1 << self.position[handle] for handle in write.handles if handle in self.position]
            for handle in write.handles:
                found[handle] = reduce(or_, along, found.get(handle, 0) | bits.get(write.node, 0))
        return {handle: value for handle, value in found.items() if value and handle not in self.position}

    @staticmethod
    def _members(bits: int) -> list[int]:
        """The positions of the bits that are set, in ascending order."""
        found: list[int] = []
        while bits:
            lowest = bits & -bits
            found.append(lowest.bit_length() - 1)
            bits ^= lowest
        return found

    def _groups(self, outputs: Sequence[str]) -> _Groups:
        groups = _Groups(len(self.trainable))
        for write in self.analysis.writes.values():
            own = [self.position[handle] for handle in write.handles if handle in self.position]
            groups.join(self._members(self.bits.get(write.node, 0)) + own)
        for bits in self.slot_bits.values():
            groups.join(self._members(bits))
        for tensor in outputs:
            groups.join(self._members(self.bits.get(node_of(tensor), 0)))
        return groups

    def build(self, outputs: Sequence[str]) -> tuple[Variable, ...]:
        groups = self._groups(outputs)
        name_of = {v.handle: v.name for v in self.variables}
        members: dict[int, list[str]] = {}
        for k, handle in enumerate(self.trainable):
            members.setdefault(groups.find(k), []).append(name_of[handle])
        backward = self._backward_order()
        return tuple(self._variable(v, groups, members, backward) for v in self.variables)

    def _variable(
        self, variable: BareVariable, groups: _Groups, members: dict[int, list[str]], backward: dict[str, int]
    ) -> Variable:
        role = self._role(variable)
        owners: tuple[str, ...] = ()
        coupled: tuple[str, ...] = ()
        if role is Role.TRAINABLE:
            coupled = tuple(members[groups.find(self.position[variable.handle])])
        if role is Role.SLOT:
            first = self._members(self.slot_bits[variable.handle])[0]
            owners = tuple(members[groups.find(first)])
        return Variable(
            name=variable.name,
            handle=variable.handle,
            shape=variable.shape,
            dtype=variable.dtype,
            role=role,
            gradients=self.gradients.get(variable.handle, ()),
            owners=owners,
            coupled=coupled,
            backward_order=backward.get(variable.handle, -1),
            content=variable.content,
        )

    def _role(self, variable: BareVariable) -> Role:
        handle = variable.handle
        if handle in self.position:
            return Role.TRAINABLE
        if handle in self.slot_bits:
            return Role.SLOT
        writes = self._writes.get(handle)
        if writes is None:
            return Role.CONSTANT
        if handle in self._seeds:
            return Role.SEED
        return Role.STATISTIC if any(map(self._from_batch, writes)) else Role.COUNTER

    @cached_property
    def _writes(self) -> dict[str, list[str]]:
        """By handle, the nodes that change the variable."""
        found: dict[str, list[str]] = {}
        for write in self.analysis.writes.values():
            for handle in write.handles:
                found.setdefault(handle, []).append(write.node)
        return found

    def _from_batch(self, node: str) -> bool:
        inputs = data_inputs(self.analysis.nodes[node])
        return any(self.analysis.scaling(tensor) is not BatchScaling.CONSTANT for tensor in inputs)

    @cached_property
    def _seeds(self) -> set[str]:
        """Handles whose value goes into the key of a random generator."""
        nodes = self.analysis.nodes
        found: set[str] = set()
        for node in nodes.values():
            stack = [node_of(tensor) for tensor in data_inputs(node)] if meaning(node.op).makes_keys else []
            for _ in range(64):
                if not stack:
                    break
                name = stack.pop()
                found.update(self.analysis.touched(nodes[name]))
                stack.extend(node_of(tensor) for tensor in data_inputs(nodes[name]))
        return found

    def _backward_order(self) -> dict[str, int]:
        """By handle, the rank of its first gradient in creation order, which is the order of the backward pass."""
        created = {name: k for k, name in enumerate(self.analysis.nodes)}
        first: dict[str, int] = {}
        for handle, gradients in self.gradients.items():
            marks: list[Any] = [self.analysis.nodes[name] for gradient in gradients for name in gradient.tensors]
            first[handle] = min(created[node_of(mark.input[0])] for mark in marks)
        return {handle: rank for rank, handle in enumerate(sorted(first, key=lambda h: first[h]))}
