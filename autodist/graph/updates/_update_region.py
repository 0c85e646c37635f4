"""Update regions: what lies between a variable's gradients and the writes to it and to its slots.

A variable can be cut into shards that are trained independently where its update computes every part of the variable
from the same part of the gradient and of the slots. The region says which nodes that concerns and, where something in
it looks at more than one part, what.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from autodist.graph._graph_def import ancestors, data_inputs, node_of, output_shape, split_tensor
from autodist.graph._variables import Variable
from autodist.graph.analysis import StepAnalysis
from autodist.graph.operators import BRANCHES, Asks, Handle, meaning
from autodist.graph.updates._in_parts import numbers_of_all
from autodist.graph.updates._slice_division import slice_division
from autodist.graph.updates._update_rules import (
    Argument,
    Domain,
    Domains,
    domains_of,
    puts_all_together,
    update_problem,
)

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph

_OUTSIDE_USE = "besides the update, the step takes the gradient of the whole variable: returns it, or a norm of it"
_OF_OTHERS = "takes gradients or slots of other variables, of which a replica has parts only"
_NO_CHOICE = "is not a plain choice: it takes examples, draws, prints, checks, or can fail"
_IN_A_BRANCH = f"changes all, and {_NO_CHOICE}"
_OTHERS_AS_WELL = "changes other variables as well"
_TOGETHER = "changes all, like gradient accumulation, or the scaling of `mixed_float16` (`mixed_bfloat16` needs none)"


@dataclass(frozen=True)
class Obstacle:
    """Why a variable can't be cut into shards.

    Attributes:
        node: The node that is in the way; empty if it is no node.
        op: Its type.
        reason: What it does.
    """

    node: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"op `{self.node}` ({self.op}) {self.reason}" if self.node else self.reason


@dataclass(frozen=True)
class UpdateRegion:
    """The update of one variable.

    Attributes:
        variable: The variable.
        slots: The slots that are cut with it.
        domains: By node of the update, in the order of the data's flow, the domains of its outputs; writes have none.
        writes: Those of the nodes that change the variable or a slot.
        observers: Nodes outside of the update that take the synchronized gradient: a norm that is returned, for one.
        obstacles: The reasons why the variable can't be cut; none if it can be cut.
        numbers: The nodes that put all elements of a tensor of the update together, or those along some dims. Replicas
            that have parts of the variable do that together; for other shards, such a node is an obstacle.
    """

    variable: Variable
    slots: tuple[Variable, ...]
    domains: dict[str, Domains]
    writes: tuple[str, ...]
    observers: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    numbers: tuple[str, ...] = ()

    @property
    def outside_use(self) -> str | None:
        """In words, what takes the whole gradient besides the update; it names an op of the script if there is one."""
        if not self.observers:
            return None
        own = [name for name in self.observers if "autodist_" not in name]
        return f"op `{own[0]}` takes the gradient of the whole variable" if own else _OUTSIDE_USE

    @property
    def handles(self) -> dict[str, Variable]:
        """The variable and its slots by the placeholders of their handles."""
        return {v.handle: v for v in (self.variable, *self.slots)}


class UpdateRegions:
    """The update regions of a step; what they share is found once.

    Args:
        graph: The step; for tiles, what couples variables by single numbers must not count, see :func:`in_parts`.
        of_tiles: Whether replicas have parts of variables, and put numbers of parts together.
    """

    def __init__(self, graph: TrainingGraph, *, of_tiles: bool = False) -> None:
        self.graph = graph
        self.of_tiles = of_tiles
        self.analysis: StepAnalysis = graph.analysis
        self._found: dict[str, UpdateRegion] = {}

    def of(self, name: str) -> UpdateRegion:
        """The region of a variable."""
        if name not in self._found:
            self._found[name] = _Region(self, self.graph.variable(name)).build()
        return self._found[name]

    @cached_property
    def position(self) -> dict[str, int]:
        """By node, its place in the flow of the data."""
        return {name: k for k, name in enumerate(self.analysis.order)}

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The nodes that put elements together, if replicas that have parts of variables do that together."""
        return numbers_of_all(self.analysis) if self.of_tiles else frozenset()

    @cached_property
    def returned(self) -> frozenset[str]:
        """The nodes whose results the step returns, or that act outside of it."""
        return frozenset([*self.graph.effects, *(node_of(output.tensor) for output in self.graph.outputs)])

    @cached_property
    def bits(self) -> dict[str, int]:
        """By node, the trainable variables on whose gradients or slots it depends by more than such numbers."""
        return self.analysis.gradient_bits(dict.fromkeys(self.numbers, 0) | self._marks, self._slots)

    @cached_property
    def _all_bits(self) -> dict[str, int]:
        """By node, the trainable variables on whose gradients or slots it depends in any way."""
        return self.analysis.gradient_bits(self._marks, self._slots)

    @cached_property
    def _bit_of(self) -> dict[str, int]:
        return {v.name: 1 << k for k, v in enumerate(self.graph.trainable)}

    @cached_property
    def _marks(self) -> dict[str, int]:
        return {t: self._bit_of[v.name] for v in self.graph.trainable for g in v.gradients for t in g.tensors}

    @cached_property
    def _slots(self) -> dict[str, int]:
        return {v.handle: self._bit_of[name] for v in self.graph.variables for name in v.owners[:1]}

    def is_number_without(self, name: str, variable: str) -> bool:
        """Whether a node gives numbers that do not depend on a variable's gradients or slots."""
        return name in self.numbers and not self._all_bits.get(name, 0) & self._bit_of.get(variable, 0)

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """By handle, the nodes that touch it."""
        found: dict[str, list[str]] = {}
        for name, node in self.analysis.nodes.items():
            for handle in self.analysis.touched(node) if node.op != "Identity" else ():
                found.setdefault(handle, []).append(name)
        return found

    @cached_property
    def consumers(self) -> dict[str, list[str]]:
        """By node, the nodes that need its data and that the step needs."""
        found: dict[str, list[str]] = {}
        for name in ancestors(self.analysis.nodes, self.returned):
            for source in dict.fromkeys(self.analysis.sources[name]):
                found.setdefault(source, []).append(name)
        return found


class _Region:
    """Finds one variable's region."""

    def __init__(self, regions: UpdateRegions, variable: Variable) -> None:
        self.all = regions
        self.analysis = regions.analysis
        self.nodes = regions.analysis.nodes
        self.variable = variable
        slots = regions.graph.slots_of(variable.name)
        self.slots = tuple(v for v in slots if v.shape == variable.shape)
        self.misshapen = [v for v in slots if v.shape != variable.shape]
        self.own = {v.handle for v in (variable, *self.slots)}
        parts = ((g.dense, Domain.DENSE) for g in variable.gradients)
        values = ((g.values, Domain.VALUES) for g in variable.gradients)
        indices = ((g.indices, Domain.INDICES) for g in variable.gradients)
        self.marks = {mark: domain for mark, domain in (*parts, *values, *indices) if mark is not None}
        self.shapes = {g.dense_shape for g in variable.gradients}
        self.domains: dict[str, Domains] = {}
        self.trained: set[str] = set()
        """Nodes whose values depend on gradients or slots, so that the whole variable is no substitute for them."""
        self.numbers: list[str] = []
        self.obstacles: list[Obstacle] = []

    def build(self) -> UpdateRegion:
        users = [name for handle in sorted(self.own) for name in self.all.users.get(handle, ())]
        writes = sorted({n for n in users if n in self.analysis.writes}, key=self.all.position.__getitem__)
        if not self._is_alone():
            return UpdateRegion(self.variable, self.slots, {}, tuple(writes), (), tuple(self.obstacles))
        for name in users:
            if name not in writes and meaning(self.nodes[name].op).handle is not Handle.READS:
                self._refuse(name, "takes the variable itself")
        others = {name for name in self.all.numbers if self.all.is_number_without(name, self.variable.name)}
        needed = ancestors_of_data(self.analysis, writes, others) - others
        for name in sorted(needed, key=self.all.position.__getitem__):
            self._classify(name)
        for name in writes:
            self._check_write(name)
        if self.all.of_tiles:
            self._follow_readers()
        observers = tuple(dict.fromkeys(self._observers()))
        obstacles, numbers = tuple(dict.fromkeys(self.obstacles)), tuple(self.numbers)
        return UpdateRegion(self.variable, self.slots, self.domains, tuple(writes), observers, obstacles, numbers)

    def _refuse(self, name: str, reason: str) -> None:
        self.obstacles.append(Obstacle(name, self.nodes[name].op, reason))

    def _is_alone(self) -> bool:
        """Whether the update is the variable's own, with slots of its shape."""
        others = sorted(set(self.variable.coupled) - {self.variable.name})
        if others:
            self.obstacles.append(
                Obstacle("", "", f"its update can't be separated from that of {self._tied_to(others)}")
            )
            return False
        for slot in self.misshapen:
            self.obstacles.append(Obstacle("", "", f"its slot `{slot.name}` has the shape {slot.shape}"))
        return True

    def _tied_to(self, others: Sequence[str]) -> str:
        """In words, the other variables; the operator that changes them along with this one, if there is one."""
        handles = {self.all.graph.variable(name).handle for name in others}
        users = (name for handle in sorted(self.own) for name in self.all.users.get(handle, ()))
        shared = (name for name in users if not handles.isdisjoint(self.analysis.touched(self.nodes[name])))
        name = next((name for name in shared if name in self.analysis.writes), None)
        if name is not None:
            why = _IN_A_BRANCH if self.all.of_tiles and self.nodes[name].op in BRANCHES else _TOGETHER
            return f"others: op `{name}` ({self.nodes[name].op}) {why}"
        return ", ".join(f"`{name}`" for name in others[:3]) + (" and others" if len(others) > 3 else "")

    # Classification ----------------------------------------------------------------------------------------------

    def _arguments(self, name: str) -> list[Argument]:
        handle_of = self.analysis.handle_of
        tensors = [t for t in data_inputs(self.nodes[name]) if node_of(t) not in handle_of]
        return [self._argument(tensor) for tensor in tensors]

    def _argument(self, tensor: str) -> Argument:
        name, index = split_tensor(tensor)
        domains = self.domains.get(name, ())
        domain = domains[index] if index < len(domains) else None
        return Argument(domain, output_shape(self.nodes[name], index), self.nodes[name])

    def _classify(self, name: str) -> None:
        node = self.nodes[name]
        touched = self.own.intersection(self.analysis.touched(node))
        if name in self.marks:
            self.domains[name] = (self.marks[name],)
            self.trained.add(name)
        elif name in self.shapes:
            self.domains[name] = (Domain.SHAPE,)
        elif name in self.analysis.writes and touched:
            self.domains[name] = ()
        elif touched:
            self._classify_read(name, touched)
        elif name not in self.analysis.handle_of and name not in self.analysis.marks:
            self._classify_other(name)

    def _classify_read(self, name: str, touched: set[str]) -> None:
        op = self.nodes[name].op
        if op == "ReadVariableOp":
            self.domains[name] = (Domain.DENSE,)
        elif op == "ResourceGather" and self._arguments(name)[0].domain is Domain.INDICES:
            self.domains[name] = (Domain.VALUES,)
        if touched != {self.variable.handle} and op != "VariableShape":
            self.trained.add(name)

    def _classify_other(self, name: str) -> None:
        node = self.nodes[name]
        arguments = self._arguments(name)
        kinds = [argument.domain for argument in arguments if argument.domain is not None]
        is_trained = not self.trained.isdisjoint(self.analysis.sources[name])
        if not kinds:
            self.trained.update({name} if is_trained and not _asks(node.op) else ())
            return
        if _asks(node.op) and kinds[0] is Domain.DENSE:
            return  # static, the same for all shards
        domains = domains_of(node, arguments, self.variable.shape)
        if domains is None:
            domains = slice_division(node, arguments, self.nodes, self.analysis.functions)
        if domains is not None and self._is_of_others(name):
            self._refuse(name, _OF_OTHERS)
        elif domains is not None:
            self.domains[name] = domains
            self.trained.update({name} if is_trained else ())
        elif is_trained and name in self.all.numbers and puts_all_together(node, arguments):
            self.numbers.append(name)
        elif is_trained:
            self._refuse(name, "looks at more than one part of the update")

    def _is_of_others(self, name: str) -> bool:
        """Whether a node takes gradients or slots of other variables, of which a replica has parts only."""
        if not self.all.of_tiles:
            return False  # these would couple the variables
        found = (t for t in data_inputs(self.nodes[name]) if not self._argument(t).domain)
        return any(self.all.bits.get(node_of(tensor)) for tensor in found)

    def _follow_readers(self) -> None:
        """Classify what else reads the gradient, such as the norm of all gradients if a step returns that."""
        waiting = [self.all.position[name] for name in self.domains]
        heapify(waiting)
        seen = {*self.domains, *self.numbers}
        while waiting:
            name = self.analysis.order[heappop(waiting)]
            for reader in self.all.consumers.get(name, ()) if self.domains.get(name) else ():
                if reader not in seen and reader not in self.analysis.marks and reader not in self.analysis.writes:
                    seen.add(reader)
                    heappush(waiting, self.all.position[reader])
            if name not in self.domains and name not in self.numbers:
                self._classify_reader(name)
                if name in self.domains:
                    heappush(waiting, self.all.position[name])

    def _classify_reader(self, name: str) -> None:
        if name in self.all.returned:
            return
        obstacles = list(self.obstacles)
        self._classify(name)
        self.obstacles = obstacles  # it is no part of the update

    def _check_write(self, name: str) -> None:
        node = self.nodes[name]
        if not set(self.analysis.touched(node)) <= self.own:
            is_branch = self.all.of_tiles and node.op in BRANCHES
            self._refuse(name, f"takes it and changes others, and {_NO_CHOICE}" if is_branch else _OTHERS_AS_WELL)
            return
        if self._is_of_others(name):
            self._refuse(name, _OF_OTHERS)
        reason = update_problem(node, self._arguments(name), self.variable.shape)
        if reason is not None:
            self._refuse(name, reason)

    # Who else takes the gradient -----------------------------------------------------------------------------------

    def _observers(self) -> Iterator[str]:
        """Nodes outside of the update that read a mark or something in the update that depends on one."""
        stack = list(self.marks)
        seen = set(stack)
        of_rows = self._nodes_of_rows()
        while stack:
            name = stack.pop()
            domains = self.domains.get(name, (self.marks.get(name),))
            for consumer in self.all.consumers.get(name, ()):
                if _asks(self.nodes[consumer].op) and set(domains) == {Domain.DENSE}:
                    continue
                if consumer in self.numbers:
                    continue
                if consumer not in self.domains:
                    yield from self._observer(consumer, name in of_rows, domains)
                elif consumer not in seen and consumer not in self.marks:
                    seen.add(consumer)
                    stack.append(consumer)

    def _nodes_of_rows(self) -> set[str]:
        """The marks of rows, and the nodes of the update that depend on them: what became dense did so in parts."""
        found = {mark for mark, domain in self.marks.items() if domain is not Domain.DENSE}
        for name in self.domains:
            if name not in self.marks and not found.isdisjoint(self.analysis.sources[name]):
                found.add(name)
        return found

    def _observer(self, consumer: str, is_of_rows: bool, domains: Iterable[Domain | None]) -> Iterator[str]:
        if set(domains) == {Domain.DENSE} and not is_of_rows:
            yield consumer
        elif not self.obstacles:
            self._refuse(consumer, "takes the rows of the sparse gradient outside of the update")


def ancestors_of_data(analysis: StepAnalysis, roots: Iterable[str], stop: Container[str]) -> set[str]:
    """The roots and all nodes whose data they need, up to the marks of gradients, and those in `stop`."""
    seen: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(() if name in analysis.marks or name in stop else analysis.sources[name])
    return seen


def _asks(op: str) -> bool:
    """Whether an operator gives the form of one tensor."""
    return meaning(op).asks not in (None, Asks.EACH)
