"""Which trials there are to make: round by round, so that a series that is interrupted has tried everything alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .catalogue import FAULTS, Fault
from .records import Record

__all__ = ["Planned", "groups", "planned"]

_OFTEN = 20
_SELDOM = 5
_IN_ONE = 4
"""How often one training bears each of the faults after which it goes on."""
_ENDING = {False: FAULTS["Ctrl-C"], True: FAULTS["TERM to the launcher"]}
"""What ends a training that its faults have not ended; by whether these happen at the start."""


@dataclass(frozen=True)
class Planned:
    """One training, and what happens to it."""

    hosts: int
    carrier: str
    faults: tuple[Fault, ...]


def planned(
    faults: Sequence[Fault], carriers: Sequence[str], hosts: Sequence[int], repeat: int | None, done: Sequence[Record]
) -> Iterator[Planned]:
    """What is still to be tried.

    Args:
        faults: All of these,
        carriers: over each of these,
        hosts: with each of these numbers of hosts,
        repeat: so many times; by default 20 times each cheap one and 5 times the others.
        done: What has been found before.

    """
    have = Counter((record.hosts, record.carrier, record.fault) for record in done)
    for turn in range(repeat or _OFTEN):
        for number in hosts:
            for carrier in carriers:
                missing: list[Fault] = []
                for fault in faults:
                    wanted = repeat or (_OFTEN if fault.is_cheap else _SELDOM)
                    if have[number, carrier, fault.name] <= turn < wanted:
                        times = min(_times_in_one(fault), wanted - have[number, carrier, fault.name])
                        have[number, carrier, fault.name] += times
                        missing += [fault] * times
                yield from (Planned(number, carrier, group) for group in groups(missing))


def _times_in_one(fault: Fault) -> int:
    return _IN_ONE if fault.expected.outcome == "goes on" and not fault.at_start else 1


def groups(faults: Sequence[Fault]) -> list[tuple[Fault, ...]]:
    """Faults after which training goes on share one, which another one ends, and so do those that restart it."""
    found, rest = [], list(faults)
    restarting = tuple(fault for fault in rest if fault.is_cheap and fault.expected.outcome == "restarts")
    if restarting:
        found.append(restarting)
        rest = [fault for fault in rest if fault not in restarting]
    for at_start, ending in _ENDING.items():
        shared = [fault for fault in rest if fault.expected.outcome == "goes on" and fault.at_start == at_start]
        if shared:
            found.append((*shared, ending))
            rest = [fault for fault in rest if fault not in shared and fault is not ending]
    return found + [(fault,) for fault in rest]
