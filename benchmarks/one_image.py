"""A net that trains on one image: on one device, and on workers that share the image along its height.

All workers are on this machine, and divide its cores. Trainings of one device and of workers alternate.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from measuring import SCRIPTS, Result, Row, progress, ratio_row, row, run_script, told_by_workers

_SIZES = (512, 1024)
_WORKERS = (2, 4)
_STEPS, _ROUNDS = 8, 3
_TIMEOUT_S = 300.0
_MOST_DIFFERENT = 1e-4


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for size in _SIZES[:1] if quick else _SIZES:
        rows += _of_size(size, 1 if quick else _ROUNDS)
    notes = (f"one image of SIZE x SIZE, {_STEPS} steps in {_ROUNDS} rounds; memory beyond what imports take",)
    return Result("one_image", tuple(rows), notes)


def _of_size(size: int, rounds: int) -> list[Row]:
    found: dict[int, list[list[dict[str, Any]]]] = {count: [] for count in (1, *_WORKERS)}
    for _ in range(rounds):
        for count, told in found.items():
            progress(f"an image of {size} x {size} on {count} worker{'s' * (count > 1)}")
            told.append(_told(count, size))
    alone = _times(found[1])
    rows = []
    for count, told in found.items():
        name = f"{size}, {count} worker{'s' * (count > 1)}"
        rows.append(row(f"{name}: step", [t * 1e3 for t in _times(told)], "ms"))
        memory = [max(one["memory"] for one in workers) / 1e6 for workers in told]
        rows.append(row(f"{name}: most memory of a worker", memory, "MB"))
        if count > 1:
            rows.append(ratio_row(f"{name}: step, against one device", _times(told), alone, "one device"))
            losses = [abs(w[0]["loss"] / o[0]["loss"] - 1) for w, o in zip(told, found[1], strict=True)]
            rows.append(row(f"{name}: loss, relative difference", losses, "", target=_MOST_DIFFERENT))
    return rows


def _told(workers: int, size: int) -> list[dict[str, Any]]:
    script = [str(SCRIPTS / "one_image_training.py")]
    if workers == 1:
        output = run_script([sys.executable, *script, str(size), str(_STEPS)], {}, _TIMEOUT_S)
        return [json.loads(output.splitlines()[-1])]
    with tempfile.TemporaryDirectory() as directory:
        options = ["--workers", str(workers), "--run-dir", f"{directory}/run"]
        command = [sys.executable, "-m", "autodist", "run", *options, *script, "--", str(size), str(_STEPS)]
        return list(told_by_workers(run_script(command, {}, _TIMEOUT_S), workers))


def _times(told: list[list[dict[str, Any]]]) -> list[float]:
    return [time for workers in told for time in workers[0]["times"]]
