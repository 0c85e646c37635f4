"""How long it takes to save a trained model of 400 MB, against plain Keras and TensorFlow, and how much memory.

Each way of saving comes after a training step, so all values are in the session, or at their parameter servers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress, ratio_row, row, run_script

_LIMIT = "plain"
_MAX_RATIO = 1.3
_MEGABYTES = 400
_STRATEGIES = ("", "AllReduce(communicator='horovod')", "PSLoadBalancing", "PartitionedPS")
"""Of two workers; the first is one worker."""
_TIMEOUT_S = 240.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    megabytes = 40 if quick else _MEGABYTES
    rows: list[Row] = []
    for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
        name = f"2 workers, {strategy}" if strategy else "1 worker"
        progress(f"checkpoint: {name}")
        rows += _compared(name, strategy, megabytes, rounds=2 if quick else 4)
    notes = (f"{megabytes} MB of parameters, plain SGD; memory: added at the peak, against the parameters' bytes",)
    return Result("checkpoint", tuple(rows), notes)


def _compared(name: str, strategy: str, megabytes: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "times.json"
        script, arguments = str(SCRIPTS / "checkpoint_training.py"), [str(megabytes), str(rounds), str(output)]
        command = [sys.executable, script, *arguments]
        if strategy:
            run = [sys.executable, "-m", "autodist", "run", "--workers", "2", "--strategy", strategy]
            command = [*run, "--run-dir", f"{directory}/run", script, "--", *arguments]
        run_script(command, {}, _TIMEOUT_S)
        found: dict[str, dict[str, list[dict[str, float]]]] = json.loads(output.read_text())
    return [line for way, sides in found.items() for line in _rows(f"{name}: {way}", sides, megabytes)]


def _rows(name: str, sides: dict[str, list[dict[str, float]]], megabytes: int) -> list[Row]:
    def figures(side: str, field: str) -> list[float]:
        return [sample[field] for sample in sides[side]]

    added = {side: [added / megabytes / 1e6 for added in figures(side, "added_bytes")] for side in sides}
    return [
        row(f"{name}, plain", figures("plain", "clock_s"), "s"),
        ratio_row(
            f"{name}, by the clock", figures("autodist", "clock_s"), figures("plain", "clock_s"), _LIMIT, _MAX_RATIO
        ),
        ratio_row(f"{name}, by processor time", figures("autodist", "cpu_s"), figures("plain", "cpu_s"), _LIMIT),
        row(f"{name}, memory, plain", added["plain"], "x"),
        row(f"{name}, memory, AutoDist", added["autodist"], "x"),
    ]
