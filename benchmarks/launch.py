"""Time from the command to the end of the first training step, of `autodist run` on two workers and of plain python."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from measuring import ROOT, SCRIPTS, Result, alternate, progress, ratio_row, row, run_script

_EXAMPLE = ROOT / "examples" / "digits.py"
_SCRIPT = str(SCRIPTS / "first_step.py")
_LIMIT = "plain python"
_TIMEOUT_S = 120.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    pairs = 1 if quick else 3
    limit, ours = alternate(_plain_s, _launched_s, pairs)
    rows = (
        row("python, to the first step", limit, "s"),
        row("autodist run --workers 2, to the first step", ours, "s"),
        ratio_row("ratio", ours, limit, _LIMIT),
        row("added", [a - b for a, b in zip(ours, limit, strict=True)], "s"),
    )
    return Result("launch", rows, ("examples/digits.py; the last worker's first step counts",))


def _plain_s() -> float:
    progress("launch: plain python")
    with tempfile.TemporaryDirectory() as directory:
        return _first_step_s([sys.executable, _SCRIPT, directory, str(_EXAMPLE)], directory)


def _launched_s() -> float:
    progress("launch: two workers")
    with tempfile.TemporaryDirectory() as directory:
        run = [sys.executable, "-m", "autodist", "run", "--workers", "2", "--run-dir", f"{directory}/run"]
        return _first_step_s([*run, _SCRIPT, "--", directory, str(_EXAMPLE)], directory)


def _first_step_s(command: list[str], directory: str) -> float:
    started = time.time()
    run_script(command, {}, _TIMEOUT_S)
    return max(float(path.read_text()) for path in Path(directory).glob("first_step.*")) - started
