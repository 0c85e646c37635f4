"""What carries collectives: Horovod, TensorFlow's own collectives, or queues on the chief."""

from autodist.kernels._base import Layout
from autodist.kernels.communicators._base import Communicator
from autodist.kernels.communicators._collective import CollectiveCommunicator
from autodist.kernels.communicators._horovod import HorovodCommunicator
from autodist.kernels.communicators._queue import QueueCommunicator

__all__ = ["CollectiveCommunicator", "Communicator", "HorovodCommunicator", "QueueCommunicator", "communicator"]


def communicator(name: str, layout: Layout, step: str) -> Communicator:
    """The communicator of this name for one compiled step of one worker."""
    if name == "horovod":
        return HorovodCommunicator()
    if name == "queue":
        return QueueCommunicator(layout.rank, layout.world_size, layout.main_device_of(0), step)
    assert name == "collective", name
    return CollectiveCommunicator(layout.world_size, step)
