"""Constants that the formulas don't know: measured on a cluster, or fitted to trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autodist.simulator._message_table import Bools, Floats


class Sent(Protocol):
    """The columns that tell the carriers of messages or collectives."""

    @property
    def is_streamed(self) -> Bools:
        """Whether AutoDist's own library carries them."""

    @property
    def is_own(self) -> Bools:
        """Whether a library with connections of its own carries them, rather than TensorFlow's runtime."""


@dataclass(frozen=True)
class Calibration:
    """Constants of a cluster: times in seconds, and factors that correct the formulas.

    The default times and factors are about those that best explain the published trials of today's carriers
    (`benchmarks/trials/version_2`) together, with the measured step without communication. Heads of packets and
    acknowledgements alone take 5 to 6 % of a link.

    Attributes:
        message_s: phi of equations 8.2 and 8.3 without the latency that a spec may list: the time of a message at its
            receiver besides that of its bytes.
        stream_s: The same for a message by AutoDist's own library, which is not a call and has no answer.
        wake_s: The time until a host goes on that waits for a message by that library: a thread wakes up.
        tensor_s: The processor time of Horovod, or of TensorFlow's runtime, for each tensor that they carry.
        copy_s: delta: the time of a shard or group besides that of its messages.
        gather_s: The additional time of TensorFlow's collectives for each tensor of rows that they gather: all
            workers agree on a length first.
        horovod_s: The additional wait of a collective over Horovod, half of its cycle on average.
        update_s_per_byte: The time of a server to apply an update, per byte of the value.
        step_s: The additional time of every step: sessions, feeds, Python.
        contention: The fraction of the time in which gradients keep a host's link busy by which its computation takes
            longer, because its processors copy and sum them; only the event simulation uses it.
        computation: The computation's time as a multiple of its profile's.
        servers: The time of bytes to and from servers as a multiple of the time that links need.
        tcp: The same for bytes of collectives over AutoDist's own library.
        horovod: The same for bytes of collectives over Horovod.
        collective: The same for bytes of TensorFlow's collectives.
    """

    message_s: float = 3.5e-4
    stream_s: float = 1e-5
    wake_s: float = 6e-5
    tensor_s: float = 5e-5
    copy_s: float = 2e-5
    gather_s: float = 5e-4
    horovod_s: float = 2e-4
    update_s_per_byte: float = 4e-10
    step_s: float = 3e-4
    contention: float = 0.6
    computation: float = 1.0
    servers: float = 1.06
    tcp: float = 1.12
    horovod: float = 1.12
    collective: float = 1.12

    def exchange_s(self, hosts: int, latency_s: float, cores_shared_by: int) -> float:
        """Seconds that a computation waits for an exchange over AutoDist's own library, besides those of its bytes.

        Each host has a message of every other one. Hosts that share cores wait for each other's messages as well: on
        four hosts of two cores, an exchange of next to nothing took 0.55 ms.

        Args:
            hosts: How many hosts take part.
            latency_s: The latency of the slowest link.
            cores_shared_by: How many hosts share the cores of one machine; 1 for none.
        """
        return self.copy_s + hosts * self.wake_s * (2 if cores_shared_by > 1 else 1) + latency_s

    def of_carriers(self, sent: Sent) -> tuple[Floats, Floats, Floats]:
        """Costs by carrier of collectives: the factor of bytes, the seconds per collective, and those per message."""
        factors = np.where(sent.is_streamed, self.tcp, np.where(sent.is_own, self.horovod, self.collective))
        waits_s = np.where(sent.is_own & ~sent.is_streamed, self.horovod_s, 0.0)
        message_s = np.where(sent.is_streamed, self.stream_s, self.message_s)
        return factors.astype(np.float32), waits_s.astype(np.float32), message_s.astype(np.float32)
