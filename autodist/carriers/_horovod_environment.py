"""The variables Horovod reads at ``hvd.init`` when something other than ``horovodrun`` has started it."""

from __future__ import annotations

from autodist.carriers._base import WorkerPlace

RENDEZVOUS_ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
RENDEZVOUS_PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
"""Where workers meet; each sets both for itself, once it imports Horovod."""


def horovod_variables(place: WorkerPlace) -> dict[str, str]:
    """All that ``hvd.init`` needs on one worker (Gloo for control and data, no MPI), except the rendezvous."""
    return {
        "HOROVOD_RANK": str(place.rank),
        "HOROVOD_SIZE": str(place.world_size),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_SIZE": str(place.local_world_size),
        "HOROVOD_CROSS_RANK": str(place.cross_rank),
        "HOROVOD_CROSS_SIZE": str(place.cross_size),
        "HOROVOD_HOSTNAME": f"node{place.node_rank}",  # it is only compared for equality, and must be fit for a URL
        "HOROVOD_GLOO_IFACE": place.interface,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


OWN_VARIABLES = frozenset(horovod_variables(WorkerPlace(0, 1, 0, 0, 1, 0, 1, ""))) | {
    RENDEZVOUS_ADDRESS,
    RENDEZVOUS_PORT,
}
"""All variables that give Horovod a worker's place."""
