"""What workers send to a parameter server, and get from it: by queues on its device, or by streams to its worker."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field

from autodist.graph import NodeList
from autodist.transport import register

__all__ = ["Mail", "Queues", "Streams"]


@dataclass(frozen=True)
class Mail(abc.ABC):
    """Channels between the workers and the one of a parameter server, one per sender, receiver and purpose.

    Attributes:
        nodes: Where to add nodes.
        device: TensorFlow's name of the server's device.
        prefix: Of the nodes' names.
        shared_prefix: Of the channels' names, by which workers find them.
    """

    nodes: NodeList
    device: str
    prefix: str
    shared_prefix: str

    @abc.abstractmethod
    def put(
        self, channel: str, name: str, tensors: Sequence[str], dtypes: Sequence[str], waits: Sequence[str], to: int
    ) -> str:
        """Send tensors to a worker, after some nodes have run."""

    @abc.abstractmethod
    def take(self, channel: str, name: str, dtypes: Sequence[str], source: int, after: Sequence[str]) -> str:
        """Receive what a worker has sent.

        Args:
            channel: The channel.
            name: Of the node.
            dtypes: Of the tensors.
            source: The worker.
            after: Nodes of this worker without which nothing can be done with what is received. What TensorFlow
                can't interrupt waits for them: else a step that fails before them would not end.
        """

    @abc.abstractmethod
    def signal(self, channel: str, name: str, waits: Sequence[str], to: int) -> str:
        """Send nothing but the news that some nodes have run."""


@dataclass(frozen=True)
class Queues(Mail):
    """Queues on the server's device, which whoever sends or receives reaches by TensorFlow's servers.

    Attributes:
        capacity: How many messages a queue holds; a sender waits while it is full.
    """

    capacity: int = 2
    _made: set[str] = field(default_factory=set, repr=False, compare=False)

    def put(
        self,
        channel: str,
        name: str,
        tensors: Sequence[str],
        dtypes: Sequence[str],
        waits: Sequence[str] = (),
        to: int = -1,
    ) -> str:
        """See the base class; whoever takes it is the one that it is for."""
        inputs = [self._queue(channel, dtypes), *tensors, *(f"^{wait}" for wait in waits)]
        full = f"{self.prefix}/{name}"
        return self.nodes.add("QueueEnqueueV2", full, inputs, device=self.device, Tcomponents=list(dtypes))

    def take(self, channel: str, name: str, dtypes: Sequence[str], source: int = -1, after: Sequence[str] = ()) -> str:
        """See the base class."""
        full = f"{self.prefix}/{name}"
        queue = self._queue(channel, dtypes)
        return self.nodes.add("QueueDequeueV2", full, [queue], device=self.device, component_types=list(dtypes))

    def signal(self, channel: str, name: str, waits: Sequence[str], to: int = -1) -> str:
        """See the base class."""
        self.nodes.device = self.device
        value = self.nodes.constant(f"{self.prefix}/{name}/value", True, "bool")
        return self.put(channel, name, [value], ["bool"], waits)

    def signals(self, channel: str, name: str, count: int) -> str:
        """Send such news several times at once."""
        self.nodes.device = self.device
        full = f"{self.prefix}/{name}"
        values = self.nodes.constant(f"{full}/values", [True] * count, "bool")
        inputs = [self._queue(channel, ["bool"]), values]
        return self.nodes.add("QueueEnqueueManyV2", full, inputs, device=self.device, Tcomponents=["bool"])

    def close(self, channel: str, name: str, dtypes: Sequence[str]) -> str:
        """End a channel: who waits for it, or sends to it, gets an error."""
        queue = self._queue(channel, dtypes)
        full = f"{self.prefix}/{name}"
        return self.nodes.add("QueueCloseV2", full, [queue], device=self.device, cancel_pending_enqueues=True)

    def _queue(self, channel: str, dtypes: Sequence[str]) -> str:
        name = f"{self.prefix}/{channel}"
        if name in self._made:
            return name
        self._made.add(name)
        return self.nodes.add(
            "FIFOQueueV2",
            name,
            device=self.device,
            component_types=list(dtypes),
            capacity=self.capacity,
            shared_name=f"{self.shared_prefix}/{channel}",
        )


@dataclass(frozen=True)
class Streams(Mail):
    """Messages from worker to worker by AutoDist's own library; both ends are in the graphs of their own workers.

    Attributes:
        own_device: TensorFlow's name of a CPU of this worker.
        priority: What has a lower number leaves first.
    """

    own_device: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def put(
        self, channel: str, name: str, tensors: Sequence[str], dtypes: Sequence[str], waits: Sequence[str], to: int
    ) -> str:
        """See the base class."""
        return self.broadcast(channel, name, tensors, dtypes, waits, [to])

    def broadcast(
        self,
        channel: str,
        name: str,
        tensors: Sequence[str],
        dtypes: Sequence[str],
        waits: Sequence[str],
        to: Sequence[int],
        below: int = -1,
    ) -> str:
        """Send tensors to several workers; whole numbers that are not in [0, below) fail the sender's step."""
        return self.nodes.add(
            "AutodistSend",
            f"{self.prefix}/{name}",
            [*tensors, *(f"^{wait}" for wait in waits)],
            device=self.own_device,
            T=list(dtypes),
            collective=f"{self.shared_prefix}/{channel}",
            ranks=list(to),
            priority=self.priority,
            below=below,
        )

    def take(self, channel: str, name: str, dtypes: Sequence[str], source: int, after: Sequence[str] = ()) -> str:
        """See the base class."""
        return self.nodes.add(
            "AutodistReceive",
            f"{self.prefix}/{name}",
            [f"^{node}" for node in after],
            device=self.own_device,
            T=list(dtypes),
            collective=f"{self.shared_prefix}/{channel}",
            ranks=[source],
        )

    def signal(self, channel: str, name: str, waits: Sequence[str], to: int) -> str:
        """See the base class."""
        self.nodes.device = self.own_device
        value = self.nodes.constant(f"{self.prefix}/{name}/value", True, "bool")
        return self.put(channel, name, [value], ["bool"], waits, to)
