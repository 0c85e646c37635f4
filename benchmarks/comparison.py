"""What it costs that workers compare their batches in each step: the same step of a small model with it and without.

On two workers of this machine, with a batch of 1 MB that each of them hashes; blocks of steps alternate within the same
two processes.
"""

from __future__ import annotations

from measuring import Result, Row, progress, ratio_row, row, times_of

_STRATEGIES = ("AllReduce(communicator='tcp')", "PSLoadBalancing()")
_TIMEOUT_S = 600.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
        progress(f"comparison: {strategy}")
        times = times_of("comparison_training.py", strategy, rounds=4 if quick else 40, timeout_s=_TIMEOUT_S)
        without = times["not compared"]
        rows += [
            row(f"{strategy}: step without", [t * 1e3 for t in without], "ms"),
            ratio_row(f"{strategy}: with it", times["compared"], without, "no comparison"),
        ]
    notes = ("2 workers on this machine; three dense layers, 160,000 parameters, batches of 1 MB",)
    return Result("comparison", tuple(rows), notes)
