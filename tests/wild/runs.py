"""Many scripts in few launches, and what comes out of each beside one device."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from .corpus import ONE_DEVICE, Place, Script

PLAY = Path(__file__).with_name("play.py")
TOLERANCE = 1e-5
"""Of the largest value of each array."""

_INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)

Result = dict[str, Any]
"""The largest `difference` and `where`, or the kind of `error`; and the `words` that go with it."""


class Runs:
    """What scripts have found, by place. One that fails ends its launch, and the next launch begins behind it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._launches = 0

    def results(self, scripts: list[Script], place: Place) -> Iterator[tuple[Script, Result]]:
        """Run scripts at a place; each result as soon as its launch has ended."""
        for script in self._played([s for s in scripts if not self._is_done(s, ONE_DEVICE)], ONE_DEVICE):
            if not self._is_done(script, ONE_DEVICE):
                yield script, self._why(script, ONE_DEVICE)
        scripts = [s for s in scripts if self._is_done(s, ONE_DEVICE)]
        for script in self._played(scripts, place):
            result = self._result(script, place)
            words = [re.sub(r"/\S*/(?=tests/wild/)|/\S*/(?=files/)", "", text) for text in result["words"]]
            yield script, result | {"words": words}

    def _played(self, scripts: list[Script], place: Place) -> Iterator[Script]:
        while scripts:
            for file in (f for s in scripts for f in self._directory_of(place).glob(f"{s.name}.*")):
                file.unlink()
            failure = self._launch(scripts, place)
            done = [s for s in scripts if self._is_done(s, place)]
            if len(done) < len(scripts):
                failed = scripts[len(done)]
                (self._directory_of(place) / f"{failed.name}.failure").write_text(failure)
                done.append(failed)
            yield from done
            scripts = scripts[len(done) :]

    def _launch(self, scripts: Iterable[Script], place: Place) -> str:
        """Run scripts one after another up to the first that fails; why it did."""
        self._launches += 1
        for script in scripts:
            self._mark(script, place).write_text(script.digest)
        # By itself it would cut little of models as small as these.
        options = ["--tile-all"] if place.strategy.startswith("Tiled") else []
        arguments = [*options, "--to", str(self._directory_of(place)), *(str(s.path) for s in scripts)]
        if not place.workers:
            env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "7"}
            done = subprocess.run(
                [sys.executable, str(PLAY), *arguments], capture_output=True, text=True, env=env, check=False
            )
            return done.stderr[-3000:]
        run_dir = self._directory_of(place) / f"run_{os.getpid()}_{self._launches}"
        job = Job(
            PLAY,
            ResourceSpec.local(workers=place.workers, cpus=1),
            tuple(arguments),
            place.strategy,
            seed=7,
            run_dir=run_dir,
            stall_timeout_s=400,
            step_timeout_s=120,
        )
        result = LocalLauncher().launch(job)
        if result.exit_code in _INTERRUPTED:
            raise KeyboardInterrupt
        logs = [f"worker {log.stem}: {log.read_text()[-1500:]}" for log in sorted((run_dir / "logs").glob("*.log"))]
        return "\n".join([str(result.failure), *logs])

    def _result(self, script: Script, place: Place) -> Result:
        if not self._is_done(script, place):
            return self._why(script, place)
        expected = self._found(script, ONE_DEVICE, 0)
        worst, where = max(difference(expected, self._found(script, place, rank)) for rank in range(place.workers))
        said = json.loads((self._directory_of(place) / f"{script.name}.0.said").read_text())
        return {"difference": float(f"{worst:.1e}"), "where": where, "words": said}

    def _why(self, script: Script, place: Place) -> Result:
        """What a script that has not ended well ended with."""
        errors = [json.loads(f.read_text()) for f in sorted(self._directory_of(place).glob(f"{script.name}.*.error"))]
        refusals = [e for e in errors if "AutoDistError" in e["kinds"]]
        if errors and len(refusals) == len(errors):
            return {"error": refusals[0]["kinds"][0], "words": [refusals[0]["text"], refusals[0]["hint"] or ""]}
        words = [f"{e['kinds'][0]}: {e['text'][:600]}" for e in errors[:1]]
        failure = self._directory_of(place) / f"{script.name}.failure"
        return {"error": "other", "words": words or [failure.read_text()[-1500:]]}

    def _found(self, script: Script, place: Place, rank: int) -> dict[str, np.ndarray]:
        return dict(np.load(self._directory_of(place) / f"{script.name}.{rank}.npz"))

    def _is_done(self, script: Script, place: Place) -> bool:
        mark = self._mark(script, place)
        if not mark.is_file() or mark.read_text() != script.digest:
            return False
        directory = self._directory_of(place)
        return all((directory / f"{script.name}.{rank}.npz").is_file() for rank in range(max(1, place.workers)))

    def _mark(self, script: Script, place: Place) -> Path:
        """A file that has the digest of the script that was run."""
        return self._directory_of(place) / f"{script.name}.script"

    def _directory_of(self, place: Place) -> Path:
        directory = self._directory / re.sub(r"\W+", "_", place.name)
        directory.mkdir(exist_ok=True, parents=True)
        return directory


def difference(expected: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> tuple[float, str]:
    """The largest difference of two arrays of one name, relative to the largest value, and the name."""
    if set(expected) != set(found):
        return float("inf"), "names: " + ", ".join(sorted(set(expected) ^ set(found)))
    return max(((_difference(expected[name], found[name]), name) for name in expected), default=(0.0, ""))


def _difference(expected: np.ndarray, found: np.ndarray) -> float:
    if expected.shape != found.shape:
        return float("inf")
    if expected.dtype.kind not in "biuf":
        return 0.0 if np.array_equal(expected, found) else float("inf")
    one, other = expected.astype(np.float64), found.astype(np.float64)
    if not one.size or np.array_equal(one, other, equal_nan=True):
        return 0.0
    worst = np.max(np.abs(one - other)) / max(float(np.max(np.abs(one))), 1e-3)
    return float(worst) if np.isfinite(worst) else float("inf")


def outcome(script: Script, result: Result) -> str:
    """Whether a result is "right", "told" or "refused" in words that fit, or "wrong"."""
    if result.get("difference", np.inf) <= TOLERANCE:
        return "right"
    kind = "told" if "difference" in result else "refused"
    pattern = script.expected.get(kind)
    if kind == "refused" and pattern is None:
        # No script says how it is told that the place's strategy does not fit it.
        pattern = "variables are tiled.* take a strategy without tile|its update can't be separated from that of"
    fits = pattern is not None and re.search(pattern, " ".join(result["words"])) is not None
    return kind if fits and result.get("error") != "other" else "wrong"
