"""What the formulas don't know: constants of a cluster that are measured, or fitted to trials."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Calibration"]


@dataclass(frozen=True)
class Calibration:
    """Constants of a cluster, in seconds.

    Attributes:
        message_s: phi of equations 8.2 and 8.3: what a message takes besides its bytes, at its receiver.
        copy_s: delta: what a shard or group takes besides its messages.
        horovod_s: What a collective over Horovod waits for besides, half of its cycle on average.
        update_s_per_byte: What a server takes to apply an update, per byte of the value.

    """

    message_s: float = 2e-4
    copy_s: float = 1e-4
    horovod_s: float = 5e-4
    update_s_per_byte: float = 5e-10
