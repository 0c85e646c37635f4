"""The page of the documentation that shows the results of the scripts."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from pathlib import Path

from .corpus import PLACES, STRATEGIES, Place, Script
from .records import Records
from .runs import Result, outcome

PATH = Path(__file__).parents[2] / "docs" / "what_works.md"

_MARKS = {"right": "=", "told": "warned", "refused": "refused", "wrong": "**wrong**"}

_HEAD = """\
# What works

{count} training scripts in the spirit of what people report of TensorFlow, Keras, Horovod and Ray Train, each run on
one device and with five strategies on two and three workers:

{strategies}

The scripts are those of `tests/wild/scripts`, written for one device, with `autodist.scope()` around what trains.
Batches are uneven: most sizes can't be divided by the number of workers, and the last batch of an epoch is not full.

All that a script finds is compared on every worker: weights, slots of the optimizer, losses, metrics, predictions.

* `=`: equal to one device, to a relative 1e-5 of the largest value of each array.
* *warned*: other values, after a warning that says so and what to do.
* *refused*: ended before it trained anything that would differ, by an error that says why and what to write instead.
* **wrong**: anything else. It must not be.
* empty: not run with this version of the script.

`python -m tests.wild --page` makes this page from records, `tests/wild/results.json`. `python -m tests.wild --record`
makes the records, which takes hours; it goes on where it was interrupted.
"""


def text(scripts: list[Script], records: Records) -> str:
    """The whole page."""
    parts = [_head(scripts), _totals(scripts, records)]
    by_kind = sorted(scripts, key=lambda s: (s.kind, s.name))
    for kind, of_kind in itertools.groupby(by_kind, key=lambda s: s.kind):
        parts.append(f"## {kind[0].upper()}{kind[1:]}\n\n{_table(list(of_kind), records)}")
    words = _words(by_kind, records)
    if words:
        parts.append("## What AutoDist says of those that differ\n\n" + words)
    return "\n".join(parts)


def _head(scripts: list[Script]) -> str:
    shown = {label: _shown(strategy) for label, strategy in STRATEGIES.items()}
    shown["tiles"] += ", which cuts all weights that can be cut here, not only where that is faster"
    return _HEAD.format(count=len(scripts), strategies="\n".join(f"* {s}: {t}" for s, t in shown.items()))


def _shown(strategy: str) -> str:
    return f"`{strategy}`" if not strategy.endswith(".yml") else "`tests/wild/mixed.yml`, a plan with all of these"


def _totals(scripts: list[Script], records: Records) -> str:
    rows = ["| | equal | warned | refused | wrong | not run |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for place in PLACES:
        counts = Counter(_outcome(s, records.of(s, place)) for s in scripts)
        rows.append(
            f"| {place.name} | " + " | ".join(str(counts[o]) for o in ("right", "told", "refused", "wrong", "")) + " |"
        )
    return "\n".join(rows) + "\n"


def _table(scripts: list[Script], records: Records) -> str:
    head = [f"{place.label}, {place.workers}" for place in PLACES]
    rows = [f"| script | {' | '.join(head)} |", f"| --- |{' :---: |' * len(head)}"]
    for script in scripts:
        cells = [_MARKS.get(_outcome(script, records.of(script, place)), "") for place in PLACES]
        rows.append(f"| `{script.name}`: {script.title} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _outcome(script: Script, result: Result | None) -> str:
    return "" if result is None else outcome(script, result)


def _words(scripts: list[Script], records: Records) -> str:
    """What is said where a result is not that of one device, for each script once."""
    lines = []
    for script in scripts:
        results = [(place, records.of(script, place)) for place in PLACES]
        chosen = next(((p, r) for p, r in results if r is not None and outcome(script, r) != "right"), None)
        if chosen is not None:
            said = f"* `{script.name}`, {_said(script, *chosen)}"
            lines.append(
                textwrap.fill(said, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            )
    return "\n".join(lines) + "\n" if lines else ""


def _said(script: Script, place: Place, result: Result) -> str:
    found = outcome(script, result)
    told: list[str] = []
    for words in result["words"]:
        told += [words] if not any(words in earlier for earlier in told) else []  # a hint stands in its message too
    return f"{_MARKS[found].strip('*')} ({place.name}): {' '.join(' '.join(told).split())[:600]}"
