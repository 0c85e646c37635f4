"""The space of strategies for a graph on a cluster (thesis 8.2.3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from autodist import carriers
from autodist.carriers import installed_communicators
from autodist.errors import SpaceEmpty
from autodist.search.space._configs import strategies_of_choices
from autodist.search.space._constraint_checks import refuse_meaningless
from autodist.search.space._constraints import Rule
from autodist.search.space.aspects import ASPECTS, Aspect, Choice, ChoiceContext
from autodist.strategies import coupled_units, num_shards, verify
from autodist.strategies.synchronizers import is_served

if TYPE_CHECKING:
    from autodist.graph import Variable
    from autodist.simulator import Domain, Ints
    from autodist.strategies import Communicator, Strategy


@dataclass(frozen=True)
class Unit:
    """Variables for which one choice is made, and the choices.

    Attributes:
        variables: Coupled variables; most are alone.
        choices: Their allowed choices.
    """

    variables: tuple[Variable, ...]
    choices: tuple[Choice, ...]

    @property
    def name(self) -> str:
        """Name of the first variable."""
        return self.variables[0].name


@dataclass(frozen=True)
class Family:
    """Choices that do not exclude each other: TensorFlow's collectives and servers can't.

    Attributes:
        name: A text with what its choices use.
        has_servers: Whether variables may be on servers.
        communicator: The carrier of collectives; None if there are none.
    """

    name: str
    has_servers: bool
    communicator: Communicator | None

    def has(self, choice: Choice) -> bool:
        """Whether a choice belongs to it."""
        return all(
            self.has_servers if is_served(part) else choice.communicator == self.communicator
            for part in choice.of_shards
        )


def _families() -> tuple[Family, ...]:
    beside = carriers.names_of(lambda carrier: carrier.has_streams)
    return (
        Family("servers", True, None),
        *(Family(name, False, name) for name in carriers.names()),
        *(Family(f"servers and {name}", True, name) for name in beside),
    )


class Space:
    """All strategies that the aspects and the user's rules allow.

    Args:
        domain: The graph and the cluster.
        rules: The choices that are pinned and forbidden.
        aspects: The aspects in which strategies differ; by default those that are searched without being asked for.
        communicators: The carriers of collectives; by default those that are installed here.
        allowed: The carriers that may be used at all; None for all.
        is_guided: Whether servers and groups are drawn as in good strategies (algorithms 9 and 10 of the thesis); else
            all servers and groups are equally likely.

    Raises:
        SpaceEmpty: The rules leave nothing for some variable; names the rules.
        UsageError: Rules name no variable, or an unknown choice; names all of them.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.simulator import Domain
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> domain = Domain.of(TrainingGraph(None, (w,), (), (), ()), ResourceSpec.local(workers=2))
        >>> space = Space(domain, [Rule.exclude("partition")], communicators=("tcp",))
        >>> [choice.synchronizer for choice in space.units[0].choices]
        ['PS', 'AllReduce']
    """

    def __init__(
        self,
        domain: Domain,
        rules: Sequence[Rule] = (),
        *,
        aspects: Iterable[Aspect] | None = None,
        communicators: tuple[Communicator, ...] | None = None,
        allowed: Collection[str] | None = None,
        is_guided: bool = True,
    ) -> None:
        self.domain = domain
        self.is_guided = is_guided
        self.rules = tuple(rules)
        self.aspects = tuple(a for a in ASPECTS if a.is_searched) if aspects is None else tuple(aspects)
        found = installed_communicators() if communicators is None else communicators
        self.communicators = tuple(name for name in found if allowed is None or name in allowed)
        order = {variable.name: number for number, variable in enumerate(domain.variables)}
        units = sorted(coupled_units(domain.graph), key=lambda unit: min(order[v.name] for v in unit))
        self._given = [(unit, self._options(unit)) for unit in units]
        refuse_meaningless(self.rules, order, {choice for _, own in self._given for choice in own})
        self._choose()
        if self._emptied():
            raise self._refusal()

    def _choose(self) -> None:
        """Set the units' choices and the families to those that the rules leave."""
        allowed = (Unit(unit, self._allowed(unit, options)) for unit, options in self._given)
        self._fit(tuple(allowed))
        self.families = tuple(family for family in _families() if self._is_possible(family))

    def single_choices(self) -> tuple[tuple[int, Strategy], ...]:
        """Strategies that together have every choice of every unit once, each with the number of its choices."""
        units, found = self._verified
        return found if units is self.units else tuple(strategies_of_choices(self.units, self.domain.spec))

    def _emptied(self) -> set[str]:
        """Names of the units without choices; all of them if no family has a choice for each."""
        return {u.name for u in self.units if not u.choices or not self.families}

    def _options(self, unit: tuple[Variable, ...]) -> tuple[Choice, ...]:
        context = ChoiceContext(self.domain.graph, self.domain.spec, unit, self.communicators)
        choices = [Choice()]
        for aspect in self.aspects:
            choices = [option for choice in choices for option in aspect.options(choice, context)]
        return tuple(choices)

    def _allowed(self, unit: tuple[Variable, ...], choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
        names = [variable.name for variable in unit]
        return tuple(c for c in choices if all(rule.allows(name, c) for rule in self.rules for name in names))

    def _fit(self, units: tuple[Unit, ...]) -> None:
        """Set the units, without choices that verification refuses, such as encoders that can't encode a gradient."""
        found = tuple(strategies_of_choices(units, self.domain.spec))
        refused: set[tuple[str, int]] = set()
        for number, strategy in found:
            problems = verify(strategy, self.domain.graph, self.domain.spec, available_communicators=carriers.names())
            refused.update((p.variable, number) for p in problems if p.variable is not None and p.aspect != "config")
        self.units = tuple(
            Unit(unit.variables, tuple(c for k, c in enumerate(unit.choices) if not self._is_refused(unit, k, refused)))
            for unit in units
        )
        self._verified = (units if refused else self.units), found

    @staticmethod
    def _is_refused(unit: Unit, number: int, refused: Collection[tuple[str, int]]) -> bool:
        return any((variable.name, number) in refused for variable in unit.variables)

    def _is_possible(self, family: Family) -> bool:
        """Whether every unit has a choice in a family, and some choice uses what the family is named after."""
        if family.communicator is not None and family.communicator not in self.communicators:
            return False
        choices = [[choice for choice in unit.choices if family.has(choice)] for unit in self.units]
        kinds = {is_served(part) for own in choices for choice in own for part in choice.of_shards}
        return all(choices) and kinds == ({True} if family.communicator is None else {False} | {family.has_servers})

    def _refusal(self) -> SpaceEmpty:
        names = sorted({u.name for u in self.units if not u.choices} or self._emptied())
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (", ..." if len(names) > 3 else "")
        rules = "; ".join(map(str, self.rules))
        return SpaceEmpty(
            f"no strategy is left for {shown}: {rules or 'the aspects have no option'}", hint=self._way_out()
        )

    def _way_out(self) -> str:
        if not self.rules:
            return "allow more aspects"
        alone = [rule for rule in self.rules if not self._without(rule)._emptied()]
        if alone:
            return f"drop {' or '.join(f'`{rule}`' for rule in alone)}"
        return f"drop more than one of {', '.join(f'`{rule}`' for rule in self.rules)}"

    def _without(self, rule: Rule) -> Space:
        """The space without a rule."""
        other = copy.copy(self)
        other.rules = tuple(one for one in self.rules if one is not rule)
        other._choose()
        return other

    @cached_property
    def log10_size(self) -> float:
        """Decimal logarithm of the number of strategies: choices, servers of all shards, and groups of neighbours."""
        hosts = self.domain.spec.world_size
        best = 0.0
        for family in self.families:
            total = 0.0
            for unit in self.units:
                ways = [_ways(choice, hosts) for choice in unit.choices if family.has(choice)]
                largest = max(ways)
                total += largest + math.log10(sum(10 ** (way - largest) for way in ways))
            best = max(best, total)
        return best

    @cached_property
    def unit_of(self) -> Ints:
        """By variable of the domain, the number of its unit."""
        numbers = np.zeros(len(self.domain.variables), np.int32)
        for number, unit in enumerate(self.units):
            numbers[[self.domain.number_of[variable.name] for variable in unit.variables]] = number
        return numbers

    @cached_property
    def dtype_of(self) -> Ints:
        """By variable of the domain, a number of its dtype."""
        dtypes = [variable.dtype for variable in self.domain.variables]
        return np.unique(dtypes, return_inverse=True)[1].astype(np.int32)

    @property
    def num_dtypes(self) -> int:
        """How many dtypes there are."""
        return int(self.dtype_of.max(initial=0)) + 1

    @cached_property
    def masks(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """By family and choice of all units, one after the other, whether the choice belongs to the family."""
        choices = [choice for unit in self.units for choice in unit.choices]
        return np.array([[family.has(choice) for choice in choices] for family in self.families], bool)


def _ways(choice: Choice, hosts: int) -> float:
    """Decimal logarithm of the number of strategies of one choice: servers of its shards, or ends of groups."""
    kinds = choice.by_shard or (choice.synchronizer,) * num_shards(choice.partition)
    served = {part.synchronizer: is_served(part) for part in choice.of_shards}
    return sum(math.log10(hosts if served[kind] else 2) for kind in kinds)
