"""Users' rules, which pin or forbid choices, and rules of good strategies: algorithms 9 and 10 of the thesis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autodist.errors import UsageError
from autodist.fitting_names import fits_name
from autodist.search.space.aspects import Choice
from autodist.strategies.synchronizers import words_of

_NOISE_ROWS = 1 << 13


@dataclass(frozen=True)
class Rule:
    """A choice that is pinned or forbidden for variables.

    Attributes:
        pattern: The names of the variables, with ``*`` and ``?``.
        word: A word for choices; see :func:`words_of`.
        is_allowed: Whether only choices with this word are allowed, rather than none of them.

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

    @classmethod
    def all_of(cls, fixed: Iterable[str], excluded: Iterable[str]) -> tuple[Rule, ...]:
        """Return what is pinned and forbidden by texts; all mistakes at once.

        Raises:
            UsageError: Some are no rules.
        """
        rules, mistakes = [], []
        for name, given in (("fix", fixed), ("exclude", excluded)):
            if isinstance(given, str):
                raise UsageError(f"`{name}` is the text {given!r}, allowed: a list of such texts")
        for read, text in (*((cls.fix, text) for text in fixed), *((cls.exclude, text) for text in excluded)):
            try:
                rules.append(read(text))
            except UsageError as error:
                mistakes.append(error.message)
        if mistakes:
            raise UsageError("\n".join(mistakes))
        return tuple(rules)

    def allows(self, variable: str, choice: Choice) -> bool:
        """Whether the rule allows a choice for a variable."""
        if not fits_name(self.pattern, variable):
            return True
        return all((self.word in words_of(part)) is self.is_allowed for part in choice.of_shards)

    def __str__(self) -> str:
        return f"--fix {self.pattern}={self.word}" if self.is_allowed else f"--exclude {self._forbidden}"

    @property
    def _forbidden(self) -> str:
        return self.word if self.pattern == "*" else f"{self.pattern}={self.word}"


def balanced_servers(
    sizes: npt.NDArray[np.float32],
    capacities: npt.NDArray[np.float32],
    chance: np.random.Generator,
    loads: npt.NDArray[np.float32] | None = None,
    avoided: npt.NDArray[np.int32] | None = None,
    free: npt.NDArray[np.float32] | None = None,
    needs: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.int32]:
    """Draw a server for every shard, rather one that has less to send than its bandwidth allows (algorithm 9).

    The thesis' logits are bytes, whose softmax is as good as an argmax; here they are divided by the size of the shard
    that is placed, so that servers which differ by less than it are alike.

    Args:
        sizes: Bytes of the shards of each proposal, the largest first, filled up with zeros; shape (proposals, shards).
        capacities: For each host, its bandwidth.
        chance: The random generator.
        loads: Bytes that each host has in each proposal before; none by default. Shape (proposals, hosts).
        avoided: The host that each shard may not get, -1 for none; shape of ``sizes``.
        free: Bytes of memory that are left on each host for serving, shape (proposals, hosts); None for no bound. A
            shard that fits nowhere is placed as if there were no bound.
        needs: Bytes of it that each host needs to serve a shard, shape (proposals, shards, hosts); goes with ``free``.

    Returns:
        Ranks of hosts, in the shape of ``sizes``; 0 for shards without bytes.
    """
    shares = (capacities / capacities.sum()).astype(np.float32)
    # Bytes by which each host is below its share of the load.
    room = np.zeros((len(sizes), len(capacities)), np.float32)
    if loads is not None:
        room = loads.sum(1, keepdims=True) * shares - loads
    # Proposals with the most shards first, so that those with shards left are always the first rows.
    lengths = np.count_nonzero(sizes, 1)
    order = np.argsort(-lengths, kind="stable")
    by_place = np.ascontiguousarray(sizes[order].T)
    servers = np.zeros(by_place.shape, np.int32)
    room, rows = room[order], np.arange(len(sizes))
    noise = _Noise(shares, sizes.shape, chance)
    memory = None if free is None or needs is None else _Memory(free[order], needs[order])
    for place, active in enumerate(np.searchsorted(-lengths[order], -np.arange(lengths.max(initial=0)))):
        size = by_place[place, :active, None]
        logits = room[:active] / size
        logits += noise.of(active)
        if avoided is not None:
            hosts = avoided[order[:active], place]
            logits[rows[:active][hosts >= 0], hosts[hosts >= 0]] = -np.inf
        if memory is not None:
            memory.bar(logits, place)
        chosen = logits.argmax(1)
        servers[place, :active] = chosen
        room[:active] += size * shares
        room[rows[:active], chosen] -= size[:, 0]
        if memory is not None:
            memory.take(chosen, place)
    found = np.zeros(sizes.shape, np.int32)
    found[order] = servers.T
    return found


class _Memory:
    """The memory that the hosts of each proposal have left."""

    def __init__(self, free: npt.NDArray[np.float32], needs: npt.NDArray[np.float32]) -> None:
        self._free = free
        self._needs = needs

    def bar(self, logits: npt.NDArray[np.float32], place: int) -> None:
        """Rule out the hosts where a shard does not fit, unless it fits nowhere."""
        fits = self._needs[: len(logits), place] <= self._free[: len(logits)]
        logits[~fits & fits.any(1, keepdims=True)] = -np.inf

    def take(self, chosen: npt.NDArray[np.intp], place: int) -> None:
        """Note where the shards are served."""
        rows = np.arange(len(chosen))
        self._free[rows, chosen] -= self._needs[rows, place, chosen]


class _Noise:
    """Gumbel variables around logarithms of shares: windows of one table, because drawing all takes too long."""

    def __init__(self, shares: npt.NDArray[np.float32], shape: tuple[int, ...], chance: np.random.Generator) -> None:
        self._chance = chance
        self._begins = min(_NOISE_ROWS, shape[0] * shape[1])
        drawn = chance.standard_exponential((self._begins + shape[0], len(shares)), np.float32)
        self._table = np.log(shares) - np.log(drawn + np.float32(1e-30))

    def of(self, rows: int) -> npt.NDArray[np.float32]:
        """A window of this many rows; shape (rows, shares)."""
        begin = int(self._chance.integers(self._begins))
        window: npt.NDArray[np.float32] = self._table[begin : begin + rows]
        return window


def adjacent_groups(sizes: npt.NDArray[np.float32], counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Put gradients that follow each other into groups of nearly the same size (algorithm 10).

    Args:
        sizes: Bytes of the shards of each proposal, in the order of the pass, filled up with zeros; shape
            (proposals, shards).
        counts: How many groups each proposal has.

    Returns:
        Numbers of groups, in the shape of ``sizes``.

    Example:
        >>> adjacent_groups(np.array([[4, 4, 4, 4]], np.float32), np.array([2], np.int32)).tolist()
        [[0, 0, 1, 1]]
    """
    average = (sizes.sum(1) / np.maximum(counts, 1)).astype(np.float32)
    group = np.zeros(len(sizes), np.int32)
    load = np.zeros(len(sizes), np.float32)
    groups = np.empty(sizes.shape[::-1], np.int32)
    for place, size in enumerate(np.ascontiguousarray(sizes.T)):
        is_full = load >= average
        group += is_full
        load *= ~is_full
        load += size
        groups[place] = group
    return np.minimum(groups, counts - 1).T
