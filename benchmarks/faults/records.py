"""What trials have found, as lines of JSON, so that a series that was interrupted goes on where it was."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RESULTS", "Record", "append", "read"]

RESULTS = Path(__file__).with_name("results.jsonl")


@dataclass(frozen=True)
class Record:
    """One trial of one fault.

    Attributes:
        fault: Its name.
        carrier: Its name.
        hosts: How many.
        seconds: From the fault to the end of the run, to the announced restart, or to the next steps of all workers;
            None if that did not come.
        resumed_s: From the fault to the next steps after a restart.
        exit_code: Of the run; None if it went on.
        bad: What was not as it has to be, in words; nothing if all was.
        made: The day.

    """

    fault: str
    carrier: str
    hosts: int
    seconds: float | None
    resumed_s: float | None = None
    exit_code: int | None = None
    bad: tuple[str, ...] = ()
    made: str = ""


def append(path: Path, records: Iterable[Record]) -> None:
    """Add lines to a file."""
    with path.open("a") as file:
        file.writelines(json.dumps(dataclasses.asdict(record)) + "\n" for record in records)


def read(path: Path) -> list[Record]:
    """All trials of a file, those of unfinished lines left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            fields = json.loads(line)
        except ValueError:
            continue  # whoever wrote it was interrupted
        known = {field.name: fields[field.name] for field in dataclasses.fields(Record) if field.name in fields}
        found.append(Record(**{**known, "bad": tuple(fields["bad"])}))
    return found
