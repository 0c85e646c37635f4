"""Queues on a device, one per sender, receiver and purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autodist.graph import NodeList

__all__ = ["Mail"]


@dataclass(frozen=True)
class Mail:
    """What the workers send to, and take from, the device of a parameter server.

    Attributes:
        nodes: Where to add nodes.
        device: TensorFlow's name of the device.
        prefix: Of the nodes' names.
        shared_prefix: Of the queues' names, by which workers find them.
        capacity: How many messages a queue holds; a sender waits while it is full.
    """

    nodes: NodeList
    device: str
    prefix: str
    shared_prefix: str
    capacity: int = 2
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
        """Send nothing but the news that some nodes have run."""
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
