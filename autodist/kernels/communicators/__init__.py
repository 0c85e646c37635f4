"""What carries collectives: AutoDist's own library, Horovod, TensorFlow's collectives, or queues on the chief."""

from autodist.kernels._base import Layout
from autodist.kernels.communicators._base import Communicator
from autodist.kernels.communicators._collective import CollectiveCommunicator
from autodist.kernels.communicators._horovod import HorovodCommunicator
from autodist.kernels.communicators._queue import QueueCommunicator
from autodist.kernels.communicators._tcp import TcpCommunicator
from autodist.kernels.communicators._widened import Widened

__all__ = [
    "CollectiveCommunicator",
    "Communicator",
    "HorovodCommunicator",
    "QueueCommunicator",
    "TcpCommunicator",
    "Widened",
    "communicator",
]


_UNSIGNED = {"uint32": "int64", "uint64": "int64"}  # the bits of the latter are kept


def communicator(name: str, layout: Layout, step: str) -> Communicator:
    """The communicator of this name for one compiled step of one worker."""
    if name == "horovod":
        wider = {"bfloat16": "float32", **_UNSIGNED}
        return Widened(HorovodCommunicator(), wider, wider)
    if name == "queue":
        return QueueCommunicator(layout.rank, layout.world_size, layout.main_device_of(0), step)
    small = {**dict.fromkeys(["bool", "int8", "uint8", "int16", "uint16"], "int32"), **_UNSIGNED}
    if name == "tcp":
        return Widened(TcpCommunicator(step, layout.world_size), small, {})
    assert name == "collective", name
    return Widened(CollectiveCommunicator(layout.world_size, step), small, small | {"bfloat16": "float32"})
