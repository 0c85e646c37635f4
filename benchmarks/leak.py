"""Whether memory grows over thousands of steps: in workers, and in the launcher.

A straight line through the resident memory after the first part of the steps tells what further steps would take. What
is needed once (caches, parts of the heap that no two steps use alike) comes in ever rarer stairs; the plain training
has them too, and is measured beside.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import SCRIPTS, Result, Row, progress

_WARM_UP = 0.3  # of the steps
_MAX_GROWTH_MB = 5.0
_TIMEOUT_S = 600.0
_PAGE_BYTES = 4096

Samples = list[tuple[float, float]]
"""Steps, or seconds, and resident bytes."""


@dataclass(frozen=True)
class Training:
    """What is run.

    Attributes:
        way: Of ``scripts/leak_training.py``.
        strategy: Of a run with two workers; empty for the scope on one worker, None without AutoDist.
    """

    way: str
    strategy: str | None

    def __str__(self) -> str:
        where = {None: "plain", "": "1 worker"}.get(self.strategy, f"2 workers, {self.strategy}")
        return f"{self.way}, {where}"

    def command(self, steps: int, directory: str) -> list[str]:
        """What starts it; writes what is measured into the directory."""
        script = [str(SCRIPTS / "leak_training.py")]
        arguments = ["plain" if self.strategy is None else "autodist", self.way, str(steps), directory]
        if not self.strategy:
            return [sys.executable, *script, *arguments]
        run = [sys.executable, "-m", "autodist", "run", "--workers", "2", "--strategy", self.strategy]
        return [*run, "--run-dir", f"{directory}/run", *script, "--", *arguments]


_TRAININGS = (
    Training("fit", None),
    Training("fit", ""),
    Training("refit", ""),
    Training("loop", ""),
    Training("fit", "PSLoadBalancing"),
    Training("refit", "AllReduce(communicator='horovod')"),
    Training("loop", "AllReduce(communicator='collective')"),
    Training("loop", "PS(staleness=2)"),
)


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    steps = 1000 if quick else 5000
    rows: list[Row] = []
    for training in _TRAININGS[1:2] if quick else _TRAININGS:
        progress(f"leak: {training}, {steps} steps")
        rows += _measured(training, steps)
    return Result(
        "leak", tuple(rows), (f"growth over {steps:,} steps, by a line through the memory after the first 30 %",)
    )


def _measured(training: Training, steps: int) -> list[Row]:
    """The growth of each process of a training."""
    with tempfile.TemporaryDirectory() as directory:
        launcher = _run(training.command(steps, directory))
        found = {path.name: json.loads(path.read_text()) for path in sorted(Path(directory).glob("memory.*"))}
    rows = [_row(f"{training}: worker {name.partition('.')[2]}", samples) for name, samples in found.items()]
    if not training.strategy:
        return rows
    return [*rows, _row(f"{training}: launcher", launcher)]


def _row(name: str, samples: Samples) -> Row:
    steady = np.array(samples[int(_WARM_UP * len(samples)) :], float)
    share = np.arange(len(steady)) / len(samples)  # of all steps
    growth_mb = float(np.polyfit(share, steady[:, 1], 1)[0]) / 1e6
    return Row(name, growth_mb, growth_mb, growth_mb, "MB", target=_MAX_GROWTH_MB)


def _run(command: Sequence[str]) -> Samples:
    """Resident memory of the process while it runs, every half second."""
    samples: Samples = []
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        environ = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None and time.monotonic() - started < _TIMEOUT_S:
                samples.append((time.monotonic() - started, _resident(process.pid)))
                time.sleep(0.5)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(
                f"{' '.join(command)} ended with {process.returncode}:\n{output.read()[-2000:].decode()}"
            )
    return samples


def _resident(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        return float(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0.0
