"""The variables Horovod reads at ``hvd.init`` when something other than ``horovodrun`` has started it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RENDEZVOUS_ADDRESS", "RENDEZVOUS_PORT", "HorovodPlace"]

RENDEZVOUS_ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
RENDEZVOUS_PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
"""Where workers meet; each sets both for itself, once it imports Horovod."""


@dataclass(frozen=True)
class HorovodPlace:
    """A worker's place as Horovod sees it.

    Attributes:
        host_name: Host name of the worker's machine, as Horovod is to see it.
        interface: Network interface for Gloo.
        cross_rank: The worker among those that have the same rank on their machines; None where every machine has as
            many workers, which tells it.
        cross_size: How many these are; None in the same case.

    """

    host_name: str = "127.0.0.1"
    interface: str = "lo"
    cross_rank: int | None = None
    cross_size: int | None = None

    @classmethod
    def from_environ(cls, variables: Mapping[str, str]) -> HorovodPlace | None:
        """Return the place that the environment tells, or None."""
        if not variables.get("HOROVOD_HOSTNAME"):
            return None
        return cls(host_name=variables["HOROVOD_HOSTNAME"], interface=variables.get("HOROVOD_GLOO_IFACE", "lo"))

    def to_environ(self, rank: int, size: int, local_rank: int, local_size: int, node_rank: int) -> dict[str, str]:
        """All that ``hvd.init`` needs on one worker (Gloo for control and for data, no MPI), but the rendezvous."""
        return {
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(size),
            "HOROVOD_LOCAL_RANK": str(local_rank),
            "HOROVOD_LOCAL_SIZE": str(local_size),
            "HOROVOD_CROSS_RANK": str(node_rank if self.cross_rank is None else self.cross_rank),
            "HOROVOD_CROSS_SIZE": str(size // local_size if self.cross_size is None else self.cross_size),
            "HOROVOD_HOSTNAME": self.host_name,
            "HOROVOD_GLOO_IFACE": self.interface,
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
        }
