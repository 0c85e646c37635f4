"""How much memory a training of large parameters takes, by plain TensorFlow and in a scope.

Each training is a process of its own. What the same training takes with a tiny model is subtracted, so that libraries
and the tracing don't count; the rest is given as a multiple of the parameters' bytes. Plain gradient descent has no
slots: 1 x is the parameters; gradients come and go within a step.

oneDNN, which TensorFlow uses by default, keeps buffers per thread and per shape that depend on how ops happened to be
scheduled and outweigh a copy of the parameters. The figures with a target are therefore measured without it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from measuring import SCRIPTS, Result, Row, progress, row, run_script

_LIMIT = "plain tf.function"
_MOMENTS = {
    "start": "peak of the start-up and step 1",
    "steady": "after 5 steps",
    "reading": "after `numpy()` of all weights",
    "after": "after 5 more steps",
}
_MAX_STEADY = 1.5  # less than a second copy
_WIDTH, _TINY = 4096, 16
_TIMEOUT_S = 120.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    repeats = 1 if quick else 2
    without = _Training(_WIDTH, onednn=False)
    found = without.alternated(repeats)
    rows = [line for moment in _MOMENTS for line in _rows(found, moment, _MOMENTS[moment], _targets(moment))]
    if not quick:
        found = _Training(_WIDTH, onednn=True).alternated(1)
        rows += _rows(found, "steady", f"{_MOMENTS['steady']}, with oneDNN", None)
    notes = (f"{without.parameters_mb:.0f} MB of parameters in 4 matrices, SGD; multiples of that",)
    return Result("memory", tuple(rows), notes)


def _targets(moment: str) -> float | None:
    return _MAX_STEADY if moment in ("steady", "after") else None


_Found = dict[str, list[dict[str, float]]]


def _rows(found: _Found, moment: str, described: str, target: float | None) -> list[Row]:
    plain = [sample[moment] for sample in found["plain"]]
    ours = [sample[moment] for sample in found["autodist"]]
    share = sum(plain) / sum(ours)
    return [
        row(f"plain, {described}", plain, "x"),
        row(f"AutoDist, {described}", ours, "x", limit=_LIMIT, of_limit=share, target=target),
    ]


@dataclass(frozen=True)
class _Training:
    width: int
    onednn: bool

    @property
    def parameters_mb(self) -> float:
        return 4 * 4 * self.width**2 / 1e6

    def alternated(self, repeats: int) -> _Found:
        """Run both trainings in turn."""
        found: _Found = {"plain": [], "autodist": []}
        tiny = {way: self._run(way, _TINY) for way in found}
        for repeat in range(repeats):
            for way in ("plain", "autodist") if repeat % 2 == 0 else ("autodist", "plain"):
                progress(f"memory: {way}, round {repeat + 1}, oneDNN {'on' if self.onednn else 'off'}")
                found[way].append(self._multiples(self._run(way, self.width), tiny[way]))
        return found

    def _multiples(self, large: dict[str, float], tiny: dict[str, float]) -> dict[str, float]:
        """Bytes at each moment beyond those of a tiny model, as multiples of the parameters' bytes."""
        return {moment: (large[moment] - tiny[moment]) / (self.parameters_mb * 1e6) for moment in _MOMENTS}

    def _run(self, way: str, width: int) -> dict[str, float]:
        command = [sys.executable, str(SCRIPTS / "memory_training.py"), way, str(width)]
        output = run_script(command, {"TF_ENABLE_ONEDNN_OPTS": str(int(self.onednn))}, _TIMEOUT_S)
        measured: dict[str, float] = json.loads(output.splitlines()[-1])
        return measured
