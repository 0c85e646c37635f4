"""Messages of workers to a parameter server, and back.

Messages go by streams to the server's worker, or, where updates are applied alongside the steps, by queues on the
server's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autodist.graph import NodeList
from autodist.transport import register

BEFORE_GRADIENTS = -(1 << 20)
"""Added to the priority of messages that a worker waits for before it computes.

Else the gradients of a worker that has its values already would delay the values, and so the gradients, of others.
"""


@dataclass(frozen=True)
class Queues:
    """Queues on the server's device; another worker asks the server's worker to use them on its behalf.

    Attributes:
        nodes: Where to add nodes.
        device: TensorFlow's name of the server's device.
        prefix: Prefix of the nodes' names.
        shared_prefix: Shared prefix of the queues' names, by which workers find them.
        capacity: How many messages a queue holds; a sender waits while it is full.
    """

    nodes: NodeList
    device: str
    prefix: str
    shared_prefix: str
    capacity: int
    _made: set[str] = field(default_factory=set, repr=False, compare=False)

    def put(
        self, channel: str, name: str, tensors: Sequence[str], dtypes: Sequence[str], waits: Sequence[str] = ()
    ) -> str:
        """Send tensors, after some nodes have run."""
        inputs = [self._queue(channel, dtypes), *tensors, *(f"^{wait}" for wait in waits)]
        full = f"{self.prefix}/{name}"
        return self.nodes.add("QueueEnqueueV2", full, inputs, device=self.device, Tcomponents=list(dtypes))

    def take(self, channel: str, name: str, dtypes: Sequence[str]) -> str:
        """Receive what was sent."""
        full = f"{self.prefix}/{name}"
        queue = self._queue(channel, dtypes)
        return self.nodes.add("QueueDequeueV2", full, [queue], device=self.device, component_types=list(dtypes))

    def signal(self, channel: str, name: str, waits: Sequence[str]) -> str:
        """Send a message without content: some nodes have run."""
        self.nodes.device = self.device
        value = self.nodes.constant(f"{self.prefix}/{name}/value", True, "bool")
        return self.put(channel, name, [value], ["bool"], waits)

    def signals(self, channel: str, name: str, count: int) -> str:
        """Send several such messages at once."""
        self.nodes.device = self.device
        full = f"{self.prefix}/{name}"
        values = self.nodes.constant(f"{full}/values", [True] * count, "bool")
        inputs = [self._queue(channel, ["bool"]), values]
        return self.nodes.add("QueueEnqueueManyV2", full, inputs, device=self.device, Tcomponents=["bool"])

    def close(self, channel: str, name: str, dtypes: Sequence[str]) -> str:
        """End a channel: waiting for it, or sending to it, gives an error."""
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
class Streams:
    """Messages from worker to worker by AutoDist's own library; both ends are in the graphs of their own workers.

    There is a channel for each sender, receiver and purpose.

    Attributes:
        nodes: Where to add nodes.
        device: TensorFlow's name of the server's device.
        prefix: Prefix of the nodes' names.
        shared_prefix: Shared prefix of the channels' names, by which workers find them.
        own_device: TensorFlow's name of a CPU of this worker.
        priority: Messages with a lower number leave first.
    """

    nodes: NodeList
    device: str
    prefix: str
    shared_prefix: str
    own_device: str
    priority: int = 0

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def put(
        self, channel: str, name: str, tensors: Sequence[str], dtypes: Sequence[str], waits: Sequence[str], to: int
    ) -> str:
        """Send tensors to a worker, after some nodes have run."""
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
        """Receive what a worker has sent.

        Args:
            channel: The channel.
            name: Name of the node.
            dtypes: Dtypes of the tensors.
            source: The worker.
            after: Nodes of this worker without which nothing can be done with what is received. TensorFlow can't
                interrupt a kernel that waits for a message: else a step that fails before them would not end.
        """
        return self.nodes.add(
            "AutodistReceive",
            f"{self.prefix}/{name}",
            [f"^{node}" for node in after],
            device=self.own_device,
            T=list(dtypes),
            collective=f"{self.shared_prefix}/{channel}",
            ranks=[source],
        )

    def shaped(self, received: str, dtype: str, shape: tuple[int | None, ...]) -> str:
        """Add the shape of what was received, which a message does not tell TensorFlow before it comes.

        TensorFlow fuses a product and the bias that is added to it where it knows their shapes. In short floats the
        fused kernel rounds once, so that all workers have to fuse what one device fuses.
        """
        inputs, full = [received], f"{received}/shaped"
        return self.nodes.add("EnsureShape", full, inputs, device=self.own_device, T=dtype, shape=shape)

    def signal(self, channel: str, name: str, waits: Sequence[str], to: int) -> str:
        """Send a message without content: some nodes have run."""
        self.nodes.device = self.own_device
        value = self.nodes.constant(f"{self.prefix}/{name}/value", True, "bool")
        return self.put(channel, name, [value], ["bool"], waits, to)
