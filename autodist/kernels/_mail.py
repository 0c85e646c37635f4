"""Queues on a device, one per sender, receiver and purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autodist.graph import NodeList

__all__ = ["Mail"]

_CAPACITY = 2


@dataclass(frozen=True)
class Mail:
    """What the workers send to, and take from, the device of a parameter server.

    Attributes:
        nodes: Where to add nodes.
        device: TensorFlow's name of the device.
        prefix: Of the nodes' names.
        shared_prefix: Of the queues' names, by which workers find them.
    """

    nodes: NodeList
    device: str
    prefix: str
    shared_prefix: str

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

    def _queue(self, channel: str, dtypes: Sequence[str]) -> str:
        return self.nodes.add(
            "FIFOQueueV2",
            f"{self.prefix}/{channel}",
            device=self.device,
            component_types=list(dtypes),
            capacity=_CAPACITY,
            shared_name=f"{self.shared_prefix}/{channel}",
        )
