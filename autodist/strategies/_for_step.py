"""Uses a strategy in a training step that trains other variables than the one for which it was made."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builder_registry import get
from autodist.strategies._builders import StrategyBuilder
from autodist.strategies._retargeted import Retargeted
from autodist.strategies._strategy import Strategy
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

_LOG = logging.getLogger("autodist")


def for_step(
    given: StrategyBuilder | Strategy, trained: Collection[str], number: int, *, is_first: bool
) -> StrategyBuilder | Strategy:
    """Return what makes the strategy of a training step: what is given, or what fits it to the variables of the step.

    A strategy is for the variables of one step. For a later one that shares none of them, as that of a GAN's other
    half, ``auto`` chooses, over the same carriers; for one that shares some, see :class:`ForStep`.

    Args:
        given: What the run or the script gives; a builder is for any step.
        trained: Names of the variables that the step trains.
        number: The number of the step in its scope, for messages.
        is_first: Whether it is the first training step of the script.
    """
    if not isinstance(given, Retargeted | Strategy):
        return given
    strategy = given.strategy if isinstance(given, Retargeted) else given
    mentioned = {config.variable for config in strategy.variables}
    if mentioned == set(trained):
        return given
    if mentioned.isdisjoint(trained) and not is_first:
        _LOG.info("the strategy that is given has no variable of step %d: `auto` chooses for that step", number)
        return _auto_over(strategy.carriers)
    return ForStep(given, number, is_first)


@final
@dataclass(frozen=True)
class ForStep(StrategyBuilder):
    """A strategy for a step that trains only some of its variables, or others besides.

    A script may first train the head of a model whose base is frozen, and then all of it: these are two training steps.
    What the step does not train is left out. What the strategy does not mention gets what ``auto`` chooses, over the
    same carriers.

    Attributes:
        given: The strategy, or one with the strategy that fits it to the cluster.
        number: The number of the step in its scope, for messages.
        is_first: Whether it is the first training step of the script. The strategy must mention all that this one
            trains, and nothing that the step does not have: else it is taken for a mistake, and the check of the
            strategy tells of it.
        tiles: Whether ``auto`` may tile.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.strategies import AllReduce
        >>> head = Variable("head", "head", (4, 2), "float32", Role.TRAINABLE, (Gradient("g"),))
        >>> base = Variable("base", "base", (9, 4), "float32", Role.TRAINABLE, (Gradient("h"),))
        >>> frozen = Variable("base", "base", (9, 4), "float32", Role.CONSTANT, ())
        >>> spec = ResourceSpec.local(2)
        >>> found = AllReduce().build(TrainingGraph(None, (head, base), (), (), ()), spec)
        >>> step = TrainingGraph(None, (head, frozen), (), (), ())
        >>> [config.variable for config in ForStep(found, 0, is_first=True).build(step, spec).variables]
        ['head']
    """

    name: ClassVar[str] = "ForStep"
    given: Retargeted | Strategy
    number: int
    is_first: bool
    tiles: bool = True

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Return the strategy for this step, and tell of what differs.

        Raises:
            StrategyError: It can't be fitted to the cluster, or nothing fits the hosts' memory.
        """
        found = self._without_others(graph, spec)
        missing = {variable.name for variable in graph.trainable} - {config.variable for config in found.variables}
        if not missing or self.is_first:
            return found
        lacking = f"{counted(len(missing), 'variable')} of step {self.number}, as `{min(missing)}`"
        _LOG.info("the strategy that is given lacks %s: `auto` chooses for these", lacking)
        # Groups of replicas are the same for all tiled variables.
        tiles = self.tiles and found.groups_of_replicas == 1
        return _completed(found, _auto_over(found.carriers, tiles=tiles, groups=False).build(graph, spec))

    def safer_than(self, strategy: Strategy) -> ForStep | None:
        """See the base class."""
        return replace(self, tiles=False) if self.tiles and strategy.has_tiles else None

    def _without_others(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """The strategy without variables that the step does not train, for this cluster."""
        strategy = self.given.strategy if isinstance(self.given, Retargeted) else self.given
        trained, known = {v.name for v in graph.trainable}, {v.name for v in graph.variables}
        left = known - trained if self.is_first else {c.variable for c in strategy.variables} - trained
        kept = tuple(config for config in strategy.variables if config.variable not in left)
        if len(kept) < len(strategy.variables):
            others = counted(len(strategy.variables) - len(kept), "variable")
            _LOG.info("the strategy that is given has %s that step %d does not train", others, self.number)
        found = replace(strategy, variables=kept)
        return replace(self.given, strategy=found).build(graph, spec) if isinstance(self.given, Retargeted) else found


def _auto_over(names: Collection[str], *, tiles: bool = True, groups: bool = True) -> StrategyBuilder:
    """The builder that chooses by itself, over carriers of these names."""
    over = " ".join(names)
    found = get(f"auto(over={over!r}, tiles={tiles}, groups={groups})")
    assert isinstance(found, StrategyBuilder)
    return found


def _completed(strategy: Strategy, others: Strategy) -> Strategy:
    """A strategy, with those variables of another one that it does not mention."""
    mentioned = {config.variable for config in strategy.variables}
    added = tuple(c.in_buffers_from(strategy.free_group) for c in others.variables if c.variable not in mentioned)
    builder = f"{strategy.builder or 'a file'}, and {counted(len(added), 'variable')} by auto"
    return replace(strategy, variables=(*strategy.variables, *added), builder=builder)
