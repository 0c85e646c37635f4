"""A search on two local workers: how long 200 trials of `examples/digits.py` take, and a trial besides its steps.

A trial's steps are those that are measured and those before them, which are counted with the median of the others.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median

from measuring import ROOT, Result, progress, row, run_script

_TRIALS, _FEW = 200, 20
_MAX_S = 300.0
_MAX_OVERHEAD_S = 1.5
_TIMEOUT_S = 1500.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    trials = _FEW if quick else _TRIALS
    progress(f"tuning: {trials} trials")
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory, "trials.db")
        found = json.loads(run_script(_command(store, trials), {"AUTODIST_CACHE": directory}, _TIMEOUT_S))
        overheads = _overheads_s(store)
    best, baselines = found["best"], [one["trial"] for one in found["baselines"] if one["trial"]]
    known_s = min(one["step_s"] for one in baselines if one["step_s"])
    rows = (
        row(f"{found['trials']} trials", [found["duration_s"]], "s", target=None if quick else _MAX_S),
        row("a trial, besides its steps", overheads, "s", target=_MAX_OVERHEAD_S),
        row("the best against the best that users know", [best["step_s"] / known_s], "x"),
    )
    return Result("tuning", rows, ("examples/digits.py on two local workers, 10 + 40 steps per trial",))


def _command(store: Path, trials: int) -> list[str]:
    search = [sys.executable, "-m", "autodist", "search", str(ROOT / "examples" / "digits.py"), "--workers", "2"]
    return [
        *search,
        "--trials",
        str(trials),
        "--store",
        str(store),
        "--out",
        str(store.with_name("best.json")),
        "--json",
    ]


def _overheads_s(store: Path) -> list[float]:
    """What each trial took besides its steps, from the end of the one before it."""
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute("SELECT ended, steps, warm_up FROM trials ORDER BY number").fetchall()
    return [after[0] - before[0] - _steps_s(*after[1:]) for before, after in pairwise(rows) if after[1] is not None]


def _steps_s(steps: str, warm_up: int) -> float:
    times = json.loads(steps)
    return float(sum(times) + warm_up * median(times))
