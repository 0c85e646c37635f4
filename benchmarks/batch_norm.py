"""What synchronized batch normalization costs: the step of a small ResNet with it, and with statistics by replica.

On two workers of this machine; blocks of steps alternate within the same two processes.
"""

from __future__ import annotations

from measuring import Result, Row, progress, ratio_row, row, times_of

_STRATEGIES = (
    "AllReduce(communicator='tcp')",
    "AllReduce(communicator='horovod')",
    "AllReduce(communicator='collective')",
    "PSLoadBalancing()",
)
_TIMEOUT_S = 1200.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
        progress(f"batch_norm: {strategy}")
        times = times_of("batch_norm_training.py", strategy, rounds=3 if quick else 7, timeout_s=_TIMEOUT_S)
        rows += [
            row(f"{strategy}: step, by replica", [t * 1e3 for t in times["replica"]], "ms"),
            ratio_row(f"{strategy}: synchronized", times["synchronized"], times["replica"], "statistics by replica"),
        ]
    notes = ("2 workers on this machine; `resnet` of examples/models, small, 16 images in a batch",)
    return Result("batch_norm", tuple(rows), notes)
