"""Collectives by queues on the chief: every worker sends its part there and takes the result from there.

For small state next to parameter servers. TensorFlow's own collectives can't be used in such a session: all sessions
then draw their step numbers from one sequence, and the clean-up after one worker's step aborts what runs on behalf of
another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers._base import Carrier, Load, Place
from autodist.carriers._communicator import Communicator
from autodist.cost import Links, star

if TYPE_CHECKING:
    from autodist.graph import NodeList

__all__ = ["Queue"]

_CAPACITY = 2


@final
@dataclass(frozen=True)
class Queue(Carrier):
    """Queues on the chief's TensorFlow server, for small state beside parameter servers."""

    name: ClassVar[str] = "queue"
    called: ClassVar[str] = "TensorFlow's servers"
    carries_gradients: ClassVar[bool] = False
    needs_servers: ClassVar[bool] = True
    missing: ClassVar[str] = ""
    has_own_connections: ClassVar[bool] = False
    carries_strings: ClassVar[bool] = True

    def communicator(self, place: Place) -> Communicator:
        """See the base class."""
        return _QueueCommunicator(place.rank, place.world_size, place.chief_device, place.step)

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """See the base class."""
        return star(load.summed_bytes, load.parts)


@final
@dataclass(frozen=True)
class _QueueCommunicator(Communicator):
    """The chief takes every worker's part in rank order, so the result is the same in every run.

    Attributes:
        rank: This worker.
        world_size: Number of workers.
        device: TensorFlow's name of the chief's device.
        step: Name of the compiled step, part of the queues' names.
    """

    rank: int
    world_size: int
    device: str
    step: str

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return self._joined(nodes, name, tensor, dtype, nodes.sum)

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return self._joined(nodes, name, tensor, dtype, nodes.concat)

    def _joined(
        self, nodes: NodeList, name: str, tensor: str, dtype: str, join: Callable[[str, list[str], str], str]
    ) -> str:
        if self.rank != 0:
            sent = self._put(nodes, f"{name}/part_{self.rank}", tensor, dtype)
            return self._take(nodes, f"{name}/result_{self.rank}", dtype, after=sent)
        parts = [tensor] + [self._take(nodes, f"{name}/part_{rank}", dtype) for rank in range(1, self.world_size)]
        joined = join(f"{name}/joined", parts, dtype)
        given = [self._put(nodes, f"{name}/result_{rank}", joined, dtype) for rank in range(1, self.world_size)]
        return nodes.add("Identity", name, [joined, *(f"^{put}" for put in given)], T=dtype)

    def _queue(self, nodes: NodeList, name: str, dtype: str) -> str:
        shared_name = f"{self.step}/{name}"
        return nodes.add(
            "FIFOQueueV2",
            f"{name}/queue",
            device=self.device,
            component_types=[dtype],
            capacity=_CAPACITY,
            shared_name=shared_name,
        )

    def _put(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        queue = self._queue(nodes, name, dtype)
        return nodes.add("QueueEnqueueV2", f"{name}/put", [queue, tensor], device=self.device, Tcomponents=[dtype])

    def _take(self, nodes: NodeList, name: str, dtype: str, after: str | None = None) -> str:
        inputs = [self._queue(nodes, name, dtype), *([f"^{after}"] if after else [])]
        return nodes.add("QueueDequeueV2", f"{name}/take", inputs, device=self.device, component_types=[dtype])
