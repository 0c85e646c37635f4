"""Collectives by Horovod: Gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import final

from autodist.graph import NodeList
from autodist.kernels.communicators._base import Communicator

__all__ = ["HorovodCommunicator"]

_SUM = 1  # horovod.tensorflow.Sum, as its ops number it


@final
@dataclass(frozen=True)
class HorovodCommunicator(Communicator):
    """Horovod finds the partners of a collective by the name of the op, so order does not matter."""

    def __post_init__(self) -> None:
        """Register Horovod's ops with TensorFlow."""
        importlib.import_module("horovod.tensorflow")

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add(
            "HorovodAllreduce", name, [tensor], T=dtype, reduce_op=_SUM, prescale_factor=1.0, postscale_factor=1.0
        )

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("HorovodAllgather", name, [tensor], T=dtype)
