"""Decisions on machines that don't reach each other, from what the machines have found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autodist.launch.watching._deadlines import Overdue, WorkersProgress
from autodist.report import FailureKind

Pair = tuple[int, int]
"""Two machines, named by their workers of the lowest rank, the lower one first."""

SILENCE_S = 12.0
"""How long a pair may be silent while a worker waits for it."""
_SILENCE_BETWEEN_STEPS_S = 60.0  # a worker that traces, loads data or saves doesn't need the others yet
_IDLE_S = 3.0  # workers report their steps every two seconds
_MOST_LISTED = 8


@dataclass(frozen=True)
class WatchedMachine:
    """A machine as the others see it.

    Attributes:
        ranks: Its workers.
        address: Under which the others reach it.
        port: Where it listens; 0 if it doesn't.
    """

    ranks: tuple[int, ...]
    address: str
    port: int = 0


@dataclass
class Reachability:
    """The machines' findings about each other.

    Attributes:
        since_s: Since when nothing has come back either way, by pair.
        last_s: When the last round of checks began.
        reached: The pairs that have ever reached each other.
    """

    since_s: dict[Pair, float] = field(default_factory=dict)
    last_s: float = 0.0
    reached: frozenset[Pair] = frozenset()

    def note(self, began_s: float, unanswered: Mapping[int, Iterable[int]]) -> None:
        """Take what was found in one round.

        Args:
            began_s: When it began.
            unanswered: By machine, those from which it got no answer. Nothing is known of a machine that is missing
                here, and the next round counts as its first.
        """
        # One way is enough: a firewall may let connections be made in one direction only.
        asked = [(low, high) for low in unanswered for high in unanswered if low < high]
        silent = [pair for pair in asked if pair[1] in unanswered[pair[0]] and pair[0] in unanswered[pair[1]]]
        self.reached |= frozenset(asked) - set(silent)
        self.since_s = {pair: self.since_s.get(pair, began_s) for pair in silent}
        self.last_s = began_s

    def longer_than(self, silence_s: float, now_s: float) -> list[Pair]:
        """Return the pairs that have been silent for at least this long.

        One round is not enough: what a machine has found comes late where its link was cut meanwhile.
        """
        again_s = self.last_s - silence_s / 2
        return sorted(
            pair for pair, since_s in self.since_s.items() if now_s - since_s >= silence_s and since_s <= again_s
        )


def find_cut(
    silences: Reachability, standing: WorkersProgress, places: Mapping[int, WatchedMachine], now_s: float
) -> Overdue | None:
    """Return the pairs that no longer reach each other, if a worker waits for that.

    A pair that has never answered counts until the first step: all carriers connect all workers before it,
    and training that goes on does without that pair.
    """
    found = []
    has_begun = any(standing.steps(rank) for rank in standing.started_s)
    for pair in silences.longer_than(SILENCE_S, now_s):
        idle = [rank for end in pair for rank in places[end].ranks if is_idle(standing, rank, now_s)]
        is_missed = any(standing.is_late(rank, now_s) for rank in idle)
        is_long = bool(idle) and now_s - silences.since_s[pair] >= _SILENCE_BETWEEN_STEPS_S
        is_new = pair not in silences.reached
        if (is_missed and not has_begun) if is_new else (is_missed or is_long):
            found.append(pair)
    return cut_between(found, silences, places, now_s) if found else None


def is_idle(standing: WorkersProgress, rank: int, now_s: float) -> bool:
    """Whether a worker runs and has taken no step for a while."""
    return rank in standing.running and now_s - standing.last_step_s(rank) >= _IDLE_S


def cut_between(
    pairs: Sequence[Pair], silences: Reachability, places: Mapping[int, WatchedMachine], now_s: float
) -> Overdue:
    """Return what to report about pairs that don't reach each other."""
    ends = [rank for pair in pairs for rank in pair]
    rank = max(ends, key=lambda end: (ends.count(end), end))  # the machine that most of them have in common
    others = sorted({end for pair in pairs if rank in pair for end in pair} - {rank})
    road = f"{places[rank].address} -> {', '.join(places[end].address for end in others[:_MOST_LISTED])}"
    elsewhere = len(pairs) - len(others)
    more = f", and {elsewhere} more pairs are cut" if elsewhere else ""
    silence_s = now_s - min(silences.since_s[pair] for pair in pairs)
    return Overdue(
        FailureKind.UNREACHABLE,
        rank,
        f"worker {rank} does not reach {_workers(others)} ({road}){more}: no answer either way for {silence_s:.0f} s",
        "their hosts answer the launcher, but not each other: look at the network and the firewalls between them",
        tuple(pairs),
    )


def _workers(ranks: Sequence[int]) -> str:
    listed = ", ".join(map(str, ranks[:_MOST_LISTED])) + (", ..." if len(ranks) > _MOST_LISTED else "")
    return f"worker {listed}" if len(ranks) == 1 else f"workers {listed}"
