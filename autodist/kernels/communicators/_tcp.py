"""Collectives by AutoDist's own library, over TCP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from autodist.graph import NodeList
from autodist.kernels.communicators._base import Communicator
from autodist.kernels.communicators._strings import gathered_strings
from autodist.transport import owner_places, register

__all__ = ["TcpCommunicator"]


@final
@dataclass(frozen=True)
class TcpCommunicator(Communicator):
    """The library finds the partners of a collective by its name, so order does not matter.

    Attributes:
        step: Name of the compiled step: names repeat between steps, collectives must not.
        world_size: How many workers there are.
    """

    carries_strings: ClassVar[bool] = True
    joins_all: ClassVar[bool] = False
    step: str
    world_size: int

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("AutodistAllReduce", name, [tensor], T=dtype, collective=f"{self.step}/{name}")

    def spread(self, nodes: NodeList, sizes: Mapping[str, int]) -> None:
        """See the base class."""
        places = dict(zip(sizes, owner_places(list(sizes.values()), self.world_size), strict=True))
        for node in nodes.nodes:
            place = places.get(node.name)
            if place is not None:
                node.attr["place"].i = place

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        if dtype == "string":
            return gathered_strings(self.all_gather, nodes, name, tensor)
        return nodes.add("AutodistAllGather", name, [tensor], T=dtype, collective=f"{self.step}/{name}")
