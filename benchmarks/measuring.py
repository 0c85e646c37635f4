"""What the benchmarks have in common: alternated timing, medians with their spread, and the form of a result."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ROOT",
    "SCRIPTS",
    "Result",
    "Row",
    "alternate",
    "progress",
    "ratio_row",
    "row",
    "run_script",
    "times_of",
    "told_by_workers",
]

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(__file__).resolve().parent / "scripts"
_TOLD = re.compile(r"^\[(\d+)\] (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The median.
        low: Lower quartile.
        high: Upper quartile.
        unit: Of the three, ``"x"`` for ratios.
        limit: What it can't be better than, by name; empty if nothing bounds it.
        of_limit: The limit divided by the value: 1 is perfect.
        target: The value must not exceed it; None for figures that only inform.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    limit: str = ""
    of_limit: float | None = None
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.target is None else self.value <= self.target


@dataclass(frozen=True)
class Result:
    """The figures of one benchmark.

    Attributes:
        benchmark: Its name.
        rows: The figures.
        notes: What one must know to read them.
    """

    benchmark: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def row(name: str, samples: Sequence[float], unit: str, **details: object) -> Row:
    """A figure from several samples of it."""
    low, median, high = _quartiles(samples)
    return Row(name, median, low, high, unit, **details)  # type: ignore[arg-type]


def ratio_row(
    name: str, ours: Sequence[float], limit: Sequence[float], limit_name: str, target: float | None = None
) -> Row:
    """The ratio of two times that were measured in pairs."""
    ratios = [mine / best for mine, best in zip(ours, limit, strict=True)]
    return row(name, ratios, "x", limit=limit_name, of_limit=1 / statistics.median(ratios), target=target)


def alternate(first: Callable[[], float], second: Callable[[], float], pairs: int) -> tuple[list[float], list[float]]:
    """Measure two things in turn, each pair in the order opposite to the last, so that a drift hits both alike.

    Args:
        first: Measures one thing once.
        second: Measures the other.
        pairs: How many times.

    Returns:
        What each of them returned, pair by pair.
    """
    one: list[float] = []
    other: list[float] = []
    for pair in range(pairs):
        for measure, found in ((first, one), (second, other)) if pair % 2 == 0 else ((second, other), (first, one)):
            found.append(measure())
    return one, other


def run_script(command: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> str:
    """What a command writes on stdout.

    Raises:
        RuntimeError: It failed; with the end of its output.
    """
    variables = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"} | environ
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False)
    if ended.returncode:
        told = (ended.stdout + ended.stderr)[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{told}")
    return ended.stdout


def times_of(script: str, strategy: str, rounds: int, timeout_s: float) -> dict[str, list[float]]:
    """What a script that times several ways of a training on two workers of this machine has found, by way.

    Args:
        script: Its name in ``scripts``; takes the number of rounds and a file for the times.
        strategy: Of the run.
        rounds: How often each way is measured.
        timeout_s: Longest time for all of it.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "times.json"
        options = ["--workers", "2", "--strategy", strategy, "--run-dir", f"{directory}/run"]
        command = [sys.executable, "-m", "autodist", "run", *options, str(SCRIPTS / script), str(rounds), str(output)]
        run_script(command, {}, timeout_s)
        times: dict[str, list[float]] = json.loads(output.read_text())
        return times


def told_by_workers(output: str, count: int) -> list[dict[str, float]]:
    """By rank, the JSON that each of so many workers has written in a line of a run's output.

    Raises:
        RuntimeError: Some have not.
    """
    by_rank = {int(rank): json.loads(text) for rank, text in _TOLD.findall(output)}
    if sorted(by_rank) != list(range(count)):
        raise RuntimeError(f"{len(by_rank)} of {count} workers have told their figures:\n{output[-2000:]}")
    return [by_rank[rank] for rank in range(count)]


def progress(text: str) -> None:
    """Say on stderr what is going on."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, median, high
