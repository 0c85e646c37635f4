"""Tables of what trials have found, for people and for the page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from .catalogue import CARRIERS, FAULTS, Fault
from .records import Record

__all__ = ["BEGIN", "END", "tables", "words_of", "write_page"]

BEGIN = "<!-- begin: written by `python -m benchmarks.faults --page` -->"
END = "<!-- end -->"


def words_of(record: Record) -> str:
    """One trial in a line."""
    if record.bad:
        return f"BAD: {'; '.join(record.bad)}"
    resumed = "" if record.resumed_s is None else f", next steps after {record.resumed_s:.1f} s"
    return f"{record.seconds:.1f} s{resumed}"


def tables(found: Sequence[Record]) -> str:
    """A table for each number of hosts: faults by carriers."""
    numbers = sorted({record.hosts for record in found})
    return "\n\n".join(f"### {number} hosts\n\n{_table(found, number)}" for number in numbers)


def _table(found: Sequence[Record], hosts: int) -> str:
    here = [record for record in found if record.hosts == hosts]
    faults = [fault for fault in FAULTS.values() if any(record.fault == fault.name for record in here)]
    rows = [["What happens", "What comes of it", *CARRIERS], ["---", "---", *("---:" for _ in CARRIERS)]]
    for fault in faults:
        cells = [[r for r in here if (r.fault, r.carrier) == (fault.name, carrier)] for carrier in CARRIERS]
        rows.append([fault.name, outcome_of(fault), *(_cell(cell) for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def outcome_of(fault: Fault) -> str:
    """What has to come of a fault, in a few words."""
    expected = fault.expected
    named = {None: "", "chief": ", worker 0 is named", "another": ", that worker is named"}[expected.blamed]
    if expected.outcome == "goes on":
        return "training goes on"
    if expected.outcome == "restarts":
        return f"a restart{named}; the undisturbed weights"
    code = "killed" if expected.exit_code < 0 else f"exit code {expected.exit_code}"
    return f"{code}{named}"


def _cell(found: Sequence[Record]) -> str:
    """Median and worst time, and of how many; of what was bad the number and the first."""
    if not found:
        return "not tried"
    bad = [record for record in found if record.bad]
    if bad:
        return f"**{len(bad)} of {len(found)} bad:** {bad[0].bad[0]}"
    text = _times([record.seconds for record in found])
    resumed = [record.resumed_s for record in found if record.resumed_s is not None]
    return f"{text}{f'; on {_times(resumed)}' if resumed else ''}; n {len(found)}"


def _times(seconds: Sequence[float | None]) -> str:
    known = [s for s in seconds if s is not None]
    median, worst = statistics.median(known), max(known)
    return f"{median:.1f} s" if len(known) == 1 else f"{median:.1f} ({worst:.1f}) s"


def write_page(path: Path, found: Sequence[Record]) -> None:
    """Put the tables in the place of those of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{tables(found)}\n\n{END}{after}")
