"""Constants that the formulas don't know: measured on a cluster, or fitted to trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autodist.simulator._message_table import Bools, Floats


class Sent(Protocol):
    """A column that says which carrier messages or collectives have."""

    @property
    def is_streamed(self) -> Bools:
        """Whether it is AutoDist's own library."""

    @property
    def is_own(self) -> Bools:
        """Whether it is any library of its own, and not TensorFlow's runtime."""


@dataclass(frozen=True)
class Calibration:
    """Constants of a cluster: times in seconds, and by which factor its formulas are wrong.

    The times that are assumed without trials are about those that explain the published trials (`benchmarks/trials`)
    best, all of them together, with factors of 1 but for that of `collective`.

    Attributes:
        message_s: phi of equations 8.2 and 8.3 without the latency that a spec may list: what else a message takes
            besides its bytes, at its receiver.
        stream_s: The same of a message by AutoDist's own library, which is no call and has no answer.
        copy_s: delta: what a shard or group takes besides its messages.
        gather_s: What TensorFlow's collectives take besides for each tensor of rows that they gather: all workers
            agree on a length first.
        horovod_s: What a collective over Horovod waits for besides, half of its cycle on average.
        update_s_per_byte: What a server takes to apply an update, per byte of the value.
        step_s: What every step takes besides: sessions, feeds, Python.
        contention: Which share of the time that its link is busy while it computes a host computes less, since its
            processors copy what it sends and gets; the event simulation knows of it.
        computation: The computation's time as a multiple of its profile's.
        servers: The time of bytes to and from servers as a multiple of that which links need.
        tcp: The same of bytes of collectives over AutoDist's own library.
        horovod: The same of bytes of collectives over Horovod.
        collective: The same of bytes of TensorFlow's collectives. In the published trials all-reduce of dense
            models took 0.88 to 1.14 times as long by them as over Horovod, of models with tables 1.1 to 1.7 times; of a
            small ResNet on sixteen hosts 1.25 times.
    """

    message_s: float = 6e-4
    stream_s: float = 6e-5
    copy_s: float = 2e-5
    gather_s: float = 1e-3
    horovod_s: float = 1e-4
    update_s_per_byte: float = 5e-10
    step_s: float = 1e-3
    contention: float = 0.5
    computation: float = 1.0
    servers: float = 1.0
    tcp: float = 1.0
    horovod: float = 1.0
    collective: float = 1.05

    def of_carriers(self, sent: Sent) -> tuple[Floats, Floats, Floats]:
        """Costs of the carriers of collectives: factors of bytes, seconds of each collective, and of each message."""
        factors = np.where(sent.is_streamed, self.tcp, np.where(sent.is_own, self.horovod, self.collective))
        waits_s = np.where(sent.is_own & ~sent.is_streamed, self.horovod_s, 0.0)
        message_s = np.where(sent.is_streamed, self.stream_s, self.message_s)
        return factors.astype(np.float32), waits_s.astype(np.float32), message_s.astype(np.float32)
