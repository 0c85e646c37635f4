"""AllReduce: every worker holds the variable and applies the same reduced gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from autodist.carriers import CarrierName, Collective
from autodist.strategies._problem import Problem, differing
from autodist.strategies.synchronizers._base import Check, Columns, Form
from autodist.strategies.synchronizers._everywhere import OnEveryWorker

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig, Strategy
    from autodist.strategies.synchronizers._choice import Choice


@dataclass(frozen=True)
class AllReduceSynchronizer(OnEveryWorker):
    """(AllReduce): every replica's worker holds the variable and applies the same reduced gradient.

    Thesis 7.3.2, group; the sparse form is (AllGather). Over which structure it reduces, its reduction sequence, is the
    carrier's own matter: a ring of workers, or with AutoDist's own library each its part; replicas of a host are
    summed before.

    Attributes:
        group: Variables with one number travel in one buffer, >= 0.
        communicator: Name of the carrier of the collective.
        staleness: How many steps after its own a gradient is reduced and applied, on all workers alike: what travels
            during a step needs nothing that is computed in it. None for 0.

    Example:
        >>> AllReduceSynchronizer(3, "tcp", staleness=1).in_group(0)
        AllReduceSynchronizer(group=0, communicator='tcp', staleness=1)
    """

    type: ClassVar[str] = "AllReduce"
    form: ClassVar[Form] = Form.REDUCED
    verb: ClassVar[str] = "all-reduced"
    group: int
    communicator: CarrierName = Collective.name
    staleness: int | None = None

    @property
    def delay(self) -> int:
        """See the base class."""
        return self.staleness or 0

    @property
    def group_number(self) -> int:
        """See the base class."""
        return self.group

    def in_group(self, number: int) -> AllReduceSynchronizer:
        """See the base class."""
        return replace(self, group=number)

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """See the base class."""
        found = super().sent(message, graph, later_reads)
        return found.changed(kept_bytes=self.delay * message.summed_bytes) if self.delay else found

    @classmethod
    def checks(cls) -> tuple[Check, ...]:
        """See the base class."""
        return _group_numbers, _groups

    def columns(self) -> Columns:
        """See the base class."""
        told = f"{self.type} (staleness={self.delay})" if self.delay else self.type
        return replace(super().columns(), told=told, staleness=self.delay or None)

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> AllReduceSynchronizer:
        """See the base class."""
        assert choice.communicator is not None
        return cls(group, choice.communicator, choice.staleness or None)

    def choice(self, graph: GraphConfig) -> Choice:
        """See the base class."""
        return replace(super().choice(graph), staleness=self.delay)


def _group_numbers(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    for name, synchronizer in strategy.synchronized_by(AllReduceSynchronizer):
        if synchronizer.group < 0:
            yield Problem(name, "group", f"{synchronizer.group}", "at least 0", "groups are numbered from 0")


_Trait: TypeAlias = "Callable[[Variable, AllReduceSynchronizer], str]"
_GROUP_TRAITS: tuple[tuple[str, str, _Trait], ...] = (
    ("dtype", "a group travels in one buffer, which has one dtype", lambda v, s: v.dtype),
    ("communicator", "a group is one collective", lambda v, s: s.communicator),
    (
        "kind of gradient",
        "sparse gradients are gathered, not reduced: give each sparse variable a group of its own",
        lambda v, s: "sparse" if v.is_sparse else "dense",
    ),
)


def _groups(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    members: dict[int, list[tuple[Variable, AllReduceSynchronizer]]] = {}
    known = {variable.name: variable for variable in graph.trainable}
    for name, synchronizer in strategy.synchronized_by(AllReduceSynchronizer):
        if name in known:
            members.setdefault(synchronizer.group, []).append((known[name], synchronizer))
    for group in sorted(members):
        for trait, reason, of in _GROUP_TRAITS:
            values = [(of(variable, synchronizer), variable.name) for variable, synchronizer in members[group]]
            yield from differing(f"{trait} of group {group}", values, "one for all members", reason)
        yield from _sparse_alone(group, [variable for variable, _ in members[group]])


def _sparse_alone(group: int, variables: list[Variable]) -> Iterator[Problem]:
    names = dict.fromkeys(variable.name for variable in variables)
    if len(names) > 1 and all(variable.is_sparse for variable in variables):
        reason = "their gradients are gathered, each with its own indices"
        yield Problem(None, f"number of sparse variables in group {group}", f"{len(names)}", "1", reason)
