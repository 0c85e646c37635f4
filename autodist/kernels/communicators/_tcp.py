"""Collectives by AutoDist's own library, over TCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from autodist.graph import NodeList
from autodist.kernels.communicators._base import Communicator
from autodist.transport import register

__all__ = ["TcpCommunicator"]


@final
@dataclass(frozen=True)
class TcpCommunicator(Communicator):
    """The library finds the partners of a collective by its name, so order does not matter.

    Attributes:
        step: Name of the compiled step: names repeat between steps, collectives must not.
    """

    joins_all: ClassVar[bool] = False
    step: str

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("AutodistAllReduce", name, [tensor], T=dtype, collective=f"{self.step}/{name}")

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("AutodistAllGather", name, [tensor], T=dtype, collective=f"{self.step}/{name}")
