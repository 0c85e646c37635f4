"""What users pin and forbid, and what is known of good strategies: algorithms 9 and 10 of the thesis."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autodist.errors import UsageError
from autodist.search._aspects import Choice

__all__ = ["Rule", "adjacent_groups", "balanced_servers"]


@dataclass(frozen=True)
class Rule:
    """A choice that is pinned or forbidden for variables.

    Attributes:
        pattern: Which variables: a name, with ``*`` and ``?``.
        word: What of a choice: see :attr:`Choice.words`.
        is_allowed: Whether only such choices are allowed, else none of them is.

    Example:
        >>> rule = Rule.fix("embedding*=ps")
        >>> rule.allows("embedding/table", Choice("AllReduce")), rule.allows("dense", Choice("AllReduce"))
        (False, True)

    """

    pattern: str
    word: str
    is_allowed: bool

    @classmethod
    def fix(cls, text: str) -> Rule:
        """Return the rule of a text like ``embedding*=ps``.

        Raises:
            UsageError: It is none.

        """
        pattern, _, word = text.partition("=")
        if not pattern or not word:
            raise UsageError(
                f"`{text}` pins nothing, allowed: NAMES=CHOICE, such as `embedding*=ps` or `dense/kernel=partition=4x1`"
            )
        return cls(pattern.strip(), word.strip().lower(), True)

    @classmethod
    def exclude(cls, text: str) -> Rule:
        """Return the rule of a text like ``partition``, or ``embedding*=allreduce`` for some variables only.

        Raises:
            UsageError: It is none.

        """
        known = text.partition("=")
        pattern, word = ("*", text) if not known[1] or known[0] in ("partition", "staleness") else (known[0], known[2])
        if not word.strip():
            raise UsageError(f"`{text}` forbids nothing, allowed: CHOICE or NAMES=CHOICE, such as `partition`")
        return cls(pattern.strip(), word.strip().lower(), False)

    def allows(self, variable: str, choice: Choice) -> bool:
        """Whether the rule has nothing against a choice for a variable."""
        if not fnmatch.fnmatchcase(variable, self.pattern):
            return True
        return (self.word in choice.words) is self.is_allowed

    def __str__(self) -> str:
        return f"--fix {self.pattern}={self.word}" if self.is_allowed else f"--exclude {self._forbidden}"

    @property
    def _forbidden(self) -> str:
        return self.word if self.pattern == "*" else f"{self.pattern}={self.word}"


def balanced_servers(
    sizes: npt.NDArray[np.float32], capacities: npt.NDArray[np.float32], chance: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Draw a server for every shard, rather one that has less to send than its bandwidth allows (algorithm 9).

    The thesis' logits are bytes, whose softmax is as good as an argmax; here they are divided by the size of the shard
    that is placed, so that servers which differ by less than it are alike.

    Args:
        sizes: Bytes of the shards of each proposal, the largest first, filled up with zeros; shape (proposals, shards).
        capacities: Of each host, its bandwidth.
        chance: Where the draws come from.

    Returns:
        Ranks of hosts, of the shape of ``sizes``.

    """
    shares = capacities / capacities.sum()
    loads = np.zeros((len(sizes), len(capacities)), np.float32)
    servers = np.zeros(sizes.shape, np.int32)
    rows = np.arange(len(sizes))
    for place in range(sizes.shape[1]):
        size = sizes[:, place]
        logits = (loads.sum(1, keepdims=True) * shares - loads) / np.maximum(size, 1)[:, None]
        chosen = np.argmax(logits + np.log(shares) + chance.gumbel(size=logits.shape), 1)
        servers[:, place] = chosen
        loads[rows, chosen] += size
    return servers


def adjacent_groups(sizes: npt.NDArray[np.float32], counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Put gradients that follow each other into groups of nearly the same size (algorithm 10).

    Args:
        sizes: Bytes of the shards of each proposal, in the order of the pass, filled up with zeros; shape
            (proposals, shards).
        counts: How many groups each proposal has.

    Returns:
        Numbers of groups, of the shape of ``sizes``.

    Example:
        >>> adjacent_groups(np.array([[4, 4, 4, 4]], np.float32), np.array([2], np.int32)).tolist()
        [[0, 0, 1, 1]]

    """
    average = sizes.sum(1) / np.maximum(counts, 1)
    group = np.zeros(len(sizes), np.int32)
    load = np.zeros(len(sizes), np.float32)
    groups = np.zeros(sizes.shape, np.int32)
    for place in range(sizes.shape[1]):
        is_full = (load >= average) & (group < counts - 1)
        group = group + is_full
        load = np.where(is_full, 0, load) + sizes[:, place]
        groups[:, place] = group
    return groups


def allowed(variable: str, choices: Iterable[Choice], rules: Iterable[Rule]) -> list[Choice]:
    """The choices for a variable against which no rule has anything."""
    return [choice for choice in choices if all(rule.allows(variable, choice) for rule in rules)]
