"""Many trainings in few launches: those of one strategy and number of workers share one start of the workers."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("train.py")
TOLERANCE = 1e-5
"""Of the largest value of each array."""


@dataclass(frozen=True)
class Place:
    """Where cases are run; with 0 workers, by plain Keras."""

    strategy: str = ""
    workers: int = 0


class Runs:
    """What cases returned by place, rank by rank; run when they are asked for, with all others of their place."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._wanted: dict[Place, list[str]] = {}
        self._tried: set[tuple[Place, str]] = set()
        self._why: dict[tuple[Place, str], str] = {}
        self._launches = 0

    def want(self, case: str, place: Place) -> None:
        """Note that a case will be asked for."""
        for wanted in (place, Place()):
            cases = self._wanted.setdefault(wanted, [])
            if case not in cases:
                cases.append(case)

    def found(self, case: str, place: Place) -> list[Any]:
        """By rank, what a case returned."""
        self.want(case, place)
        cases = [c for c in self._wanted[place] if (place, c) not in self._tried]
        while (place, case) not in self._tried:
            self._launch(cases, place)
            cases = [c for c in cases if (place, c) not in self._tried]
        folder = self.directory(place)
        assert (place, case) not in self._why, f"{case} failed: {self._why[place, case]}"
        return [pickle.loads((folder / f"{case}.{rank}.pickle").read_bytes()) for rank in range(max(1, place.workers))]

    def files(self, case: str, place: Place) -> dict[str, bytes]:
        """The files that a case has left in its working directory."""
        folder = self.directory(place) / "files" / case
        return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}

    def directory(self, place: Place) -> Path:
        """Where the results of a place are."""
        folder = self._directory / re.sub(r"\W+", "_", f"{Path(place.strategy).name}_{place.workers}")
        folder.mkdir(exist_ok=True)
        return folder

    def _launch(self, cases: list[str], place: Place) -> None:
        """Run cases one after another up to the first that fails."""
        arguments = ["--to", str(self.directory(place))]
        arguments += [part for case in cases for part in ("--case", case)]
        failure = self._alone(arguments) if not place.workers else self._together(arguments, place)
        self._tried |= {(place, case) for case in cases if self._is_done(case, place)}
        if failure is not None:
            failed = next(case for case in cases if not self._is_done(case, place))
            errors = "\n".join(f.read_text() for f in sorted(self.directory(place).glob(f"{failed}.*.error")))
            self._why[place, failed] = f"{failure}\n{errors}"
            self._tried.add((place, failed))

    def _is_done(self, case: str, place: Place) -> bool:
        folder = self.directory(place)
        return all((folder / f"{case}.{rank}.pickle").is_file() for rank in range(max(1, place.workers)))

    def _alone(self, arguments: list[str]) -> str | None:
        command = [sys.executable, str(SCRIPT), *arguments]
        env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=env, check=False)
        return None if done.returncode == 0 else done.stderr[-3000:]

    def _together(self, arguments: list[str], place: Place) -> str | None:
        self._launches += 1
        run_dir = self._directory / f"run_{self._launches}"
        spec = ResourceSpec.local(workers=place.workers, cpus=1)
        job = Job(SCRIPT, spec, tuple(arguments), place.strategy, seed=7, run_dir=run_dir)
        result = LocalLauncher().launch(job)
        if result.exit_code == 0:
            return None
        logs = [f"worker {log.stem}: {log.read_text()[-1500:]}" for log in sorted((run_dir / "logs").glob("*.log"))]
        return "\n".join([str(result.failure), *logs])


def assert_same(expected: Any, found: Any, tolerance: float = TOLERANCE) -> int:
    """Two nested structures hold the same numbers; returns how many arrays were compared."""
    pairs = list(_pairs("", expected, found))
    wrong = [line for name, one, other in pairs if (line := _difference(name, one, other, tolerance))]
    assert not wrong, "\n".join(wrong)
    return len(pairs)


def _pairs(name: str, expected: Any, found: Any) -> Any:
    if isinstance(expected, dict):
        assert list(expected) == list(found), f"{name}: {list(expected)} and {list(found)}"
        for key in expected:
            yield from _pairs(f"{name}/{key}", expected[key], found[key])
    elif isinstance(expected, list | tuple):
        assert len(expected) == len(found), f"{name}: {len(expected)} and {len(found)} items"
        for k, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _pairs(f"{name}/{k}", one, other)
    else:
        yield name, expected, found


def _difference(name: str, expected: Any, found: Any, tolerance: float) -> str | None:
    if expected is None or isinstance(expected, str | bool):
        return None if expected == found else f"{name}: {expected!r} and {found!r}"
    one, other = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    if one.shape != other.shape:
        return f"{name}: shapes {one.shape} and {other.shape}"
    if not one.size or np.array_equal(one, other, equal_nan=True):
        return None
    worst = np.max(np.abs(one - other)) / max(float(np.max(np.abs(one))), 1e-3)
    return None if worst <= tolerance else f"{name}: {worst:.1e}, {one.ravel()[:4]} and {other.ravel()[:4]}"
