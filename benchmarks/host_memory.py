"""How much memory each worker of two takes, against the size of the model, strategy by strategy.

The training is that of `memory`: four square matrices and plain gradient descent. What the same training takes with a
tiny model is subtracted. As multiples of the parameters' bytes the figures have to stay what they are when the model
grows: where a worker holds all parameters, or a server its part.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from measuring import SCRIPTS, Result, Row, progress, row, run_script, told_by_workers

_STRATEGIES = (
    "AllReduce", "AllReduce(communicator='collective')", "PSLoadBalancing", "PartitionedPS",
    "PSLoadBalancing(local_proxy=True)",
)  # fmt: skip
_WIDTHS = (1024, 2048, 4096)
_TINY = 16
_WORKERS = 2
_MOMENTS = {"start": "peak of the start-up and step 1", "steady": "after 5 steps"}
_MOST_GROWTH = 1.25
"""Of the largest model's multiple over that of the middle one."""
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class _Memory:
    """Bytes of each worker, moment by moment."""

    workers: tuple[dict[str, float], ...]

    def beyond(self, tiny: _Memory, moment: str) -> list[float]:
        """Of each worker, as multiples of the parameters' bytes."""
        pairs = zip(self.workers, tiny.workers, strict=True)
        return [(large[moment] - small[moment]) / large["parameters"] for large, small in pairs]


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows = [line for name in (_STRATEGIES[:1] if quick else _STRATEGIES) for line in _rows(name, quick)]
    notes = (f"{_WORKERS} workers; multiples of the parameters' bytes; the value is the workers' median",)
    return Result("host_memory", tuple(rows), notes)


def _rows(strategy: str, quick: bool) -> list[Row]:
    tiny = _trained(strategy, _TINY)
    found = {width: _trained(strategy, width) for width in (_WIDTHS[:2] if quick else _WIDTHS)}
    rows = []
    for memory in found.values():
        size = f"{memory.workers[0]['parameters'] / 1e6:.0f} MB"
        rows += [row(f"{strategy}, {size}, {_MOMENTS[one]}", memory.beyond(tiny, one), "x") for one in _MOMENTS]
    *_, middle, largest = (max(memory.beyond(tiny, "start")) for memory in found.values())
    return [*rows, row(f"{strategy}: largest over middle", [largest / middle], "x", target=_MOST_GROWTH)]


def _trained(strategy: str, width: int) -> _Memory:
    progress(f"host_memory: {strategy}, width {width}")
    command = [sys.executable, "-m", "autodist", "run", str(SCRIPTS / "memory_training.py")]
    command += ["--workers", str(_WORKERS), "--strategy", strategy, "--", "autodist", str(width)]
    # oneDNN keeps buffers that depend on how ops happened to be scheduled.
    output = run_script(command, {"TF_ENABLE_ONEDNN_OPTS": "0"}, _TIMEOUT_S)
    return _Memory(tuple(told_by_workers(output, _WORKERS)))
