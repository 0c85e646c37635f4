"""Whether steps wait for their data: `fit` of examples/digits.py, with the time that each step takes to get its batch.

What it takes to hand over a batch that is in memory is no waiting, and is subtracted.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress, row, run_script

_MAX_SHARE = 0.05
_TIMEOUT_S = 120.0

Steps = list[dict[str, float]]


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for workers in (1,) if quick else (1, 2):
        progress(f"inputs: {workers} worker{'s' if workers > 1 else ''}")
        rows += _rows(f"{workers} worker{'s' if workers > 1 else ''}", _trained(workers))
    return Result("inputs", tuple(rows), ("waiting: as a share of the step, beyond what a batch in memory takes",))


def _trained(workers: int) -> dict[str, Steps]:
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "steps.json"
        script = str(SCRIPTS / "input_training.py")
        command = [sys.executable, script, str(output)]
        if workers > 1:
            run = [sys.executable, "-m", "autodist", "run", "--workers", str(workers)]
            command = [*run, "--run-dir", f"{directory}/run", script, "--", str(output)]
        run_script(command, {}, _TIMEOUT_S)
        found: dict[str, Steps] = json.loads(output.read_text())
    return found


def _rows(name: str, found: dict[str, Steps]) -> list[Row]:
    handed_over_s = statistics.median(step["wait_s"] for step in found["ready"])
    ready_s = statistics.median(step["step_s"] for step in found["ready"])
    rows = [row(f"{name}: step on a batch in memory", [step["step_s"] * 1e3 for step in found["ready"]], "ms")]
    for kind, target in (("digits", _MAX_SHARE), ("prepared", None)):
        later = [step for step in found[kind] if not step["is_first"]]
        first = [step for step in found[kind] if step["is_first"]]
        waiting = [max(0.0, step["wait_s"] - handed_over_s) / step["step_s"] for step in later]
        rows += [
            row(f"{name}: {kind}, waiting", waiting, "x", target=target),
            row(f"{name}: {kind}, first step of an epoch, waiting", [step["wait_s"] * 1e3 for step in first], "ms"),
            row(f"{name}: {kind}, step against one in memory", [step["step_s"] / ready_s for step in later], "x"),
        ]
    return rows
