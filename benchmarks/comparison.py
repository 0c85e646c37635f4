"""What it costs that workers compare their batches in each step: the same step of a small model with it and without.

On two workers of this machine, with a batch of 1 MB that each of them hashes; blocks of steps alternate within the same
two processes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress, ratio_row, row, run_script

_STRATEGIES = ("AllReduce(communicator='tcp')", "PSLoadBalancing()")
_TIMEOUT_S = 600.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
        progress(f"comparison: {strategy}")
        times = _times(strategy, rounds=4 if quick else 40)
        without = times["not compared"]
        rows += [
            row(f"{strategy}: step without", [t * 1e3 for t in without], "ms"),
            ratio_row(f"{strategy}: with it", times["compared"], without, "no comparison"),
        ]
    notes = ("2 workers on this machine; three dense layers, 160,000 parameters, batches of 1 MB",)
    return Result("comparison", tuple(rows), notes)


def _times(strategy: str, rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "times.json"
        script = [str(SCRIPTS / "comparison_training.py"), str(rounds), str(output)]
        options = ["--workers", "2", "--strategy", strategy, "--run-dir", f"{directory}/run"]
        run_script([sys.executable, "-m", "autodist", "run", *options, *script], {}, _TIMEOUT_S)
        times: dict[str, list[float]] = json.loads(output.read_text())
        return times
