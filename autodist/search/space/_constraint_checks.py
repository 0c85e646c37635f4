"""Checks of rules and strategies: which rules have no effect, and which strategies obey them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Sequence

from autodist.errors import UsageError
from autodist.fitting_names import fits_name
from autodist.search.space._constraints import Rule
from autodist.search.space.aspects import ASPECTS, Choice
from autodist.strategies import GraphConfig, Strategy, VariableConfig
from autodist.strategies.synchronizers import words_of

_SHOWN = 3
_CHANGING = tuple(Rule.exclude(word) for aspect in ASPECTS if aspect.changes_results for word in sorted(aspect.words))


def obeys(strategy: Strategy, rules: Iterable[Rule]) -> bool:
    """Whether no rule has anything against a strategy.

    Example:
        >>> from autodist.strategies import AllReduceSynchronizer, GraphConfig
        >>> config = VariableConfig.whole("w", AllReduceSynchronizer(0))
        >>> strategy = Strategy(GraphConfig((), "collective"), (config,))
        >>> obeys(strategy, [Rule.exclude("partition")]), obeys(strategy, [Rule.fix("*=ps")])
        (True, False)
    """
    choices = [
        (config.variable, choice) for config in strategy.variables for choice in _choices(config, strategy.graph)
    ]
    return all(rule.allows(variable, choice) for rule in rules for variable, choice in choices)


def keeps_results(strategy: Strategy) -> bool:
    """Whether a strategy trains as one device does: synchronously, and with lossless encoders.

    Example:
        >>> from autodist.strategies import GraphConfig, PSSynchronizer
        >>> config = VariableConfig.whole("w", PSSynchronizer("a:CPU:0", staleness=2))
        >>> keeps_results(Strategy(GraphConfig((), "tcp"), (config,)))
        False
    """
    return obeys(strategy, _CHANGING)


def refuse_meaningless(rules: Sequence[Rule], variables: Collection[str], choices: Iterable[Choice]) -> None:
    """Refuse rules that no variable and no choice can break: they are mistyped.

    Words for options of aspects that are not searched are known, too: it is no mistake to forbid these.

    Args:
        rules: The choices that are pinned and forbidden.
        variables: Names of the variables that a strategy is searched for.
        choices: All choices for some variable, before rules.

    Raises:
        UsageError: There are such rules; all are named, with what they may have meant.
    """
    words = {word for choice in choices for word in words_of(choice)} | {w for aspect in ASPECTS for w in aspect.words}
    mistakes = [mistake for rule in dict.fromkeys(rules) for mistake in _mistakes(rule, variables, words)]
    if mistakes:
        allowed = ", ".join(sorted(words, key=lambda word: ("=" in word, word)))
        raise UsageError("\n".join(mistakes), hint=f"`*` and `?` match parts of names; choices are {allowed}")


def _mistakes(rule: Rule, variables: Collection[str], words: Collection[str]) -> Iterable[str]:
    if not any(fits_name(rule.pattern, variable) for variable in variables):
        yield f"`{rule}`: no variable is called `{rule.pattern}`{_near(_names_like(rule.pattern, variables))}"
    if rule.word not in words:
        yield f"`{rule}`: no choice is called `{rule.word}`{_near(difflib.get_close_matches(rule.word, words))}"


def _names_like(pattern: str, variables: Collection[str]) -> list[str]:
    """Variables whose name, or some part of it, is nearly that of a pattern without its wildcards."""
    bare = pattern.strip("*?/").casefold()
    parts = {name: [name.casefold(), *name.casefold().split("/")] for name in variables}
    near = set(difflib.get_close_matches(bare, {part for own in parts.values() for part in own}, n=_SHOWN))
    return [name for name, own in parts.items() if near & {*own}]


def _near(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    return f", near are {shown}" if shown else ""


def _choices(config: VariableConfig, graph: GraphConfig) -> Iterable[Choice]:
    """A config's choices for each of its shards."""
    kinds = tuple(shard.synchronizer.type for shard in config.shards)
    by_shard = kinds if len(set(kinds)) > 1 else ()
    for shard in dict.fromkeys(config.shards):
        chosen = shard.synchronizer.choice(graph)
        yield dataclasses.replace(chosen, partition=config.partition, compressor=shard.compressor, by_shard=by_shard)
