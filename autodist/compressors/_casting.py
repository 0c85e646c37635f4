"""Common parts of compressors that send gradients in a narrower dtype."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged

if TYPE_CHECKING:
    from autodist.graph import NodeList


@dataclass(frozen=True)
class Cast(Compressor, abc.ABC):
    """Casts gradients to a dtype of two bytes; messages are summed in that dtype.

    Attributes:
        wire: The dtype of the messages.
        slices_wire: A dtype of the same size in which every communicator can gather them.
    """

    wire: ClassVar[str]
    slices_wire: ClassVar[str] = "float16"

    @property
    def encodes_slices(self) -> bool:
        """See the base class."""
        return True

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return prod(shape) * FLOATS[self.wire]

    def summed_dtype(self, dtype: str) -> str:
        """See the base class."""
        return self.wire

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""
        encoded = self.narrowed(nodes, f"{name}/encoded", gradient, dtype, channel.world_size)
        summed = channel.all_reduce("sum", encoded, self.wire, shape)
        return Exchanged(
            total=nodes.cast(f"{name}/total", summed, self.wire, dtype),
            own=nodes.cast(f"{name}/own", encoded, self.wire, dtype),
        )

    def encode_slices(self, nodes: NodeList, name: str, values: str, dtype: str) -> tuple[str, str]:
        """See the base class."""
        encoded = self.narrowed(nodes, f"{name}/encoded", values, dtype, 1)
        if self.wire == self.slices_wire:
            return encoded, self.wire
        return nodes.add("Bitcast", f"{name}/bits", [encoded], T=self.wire, type=self.slices_wire), self.slices_wire

    def decode_slices(self, nodes: NodeList, name: str, values: str, dtype: str) -> str:
        """See the base class."""
        if self.wire != self.slices_wire:
            values = nodes.add("Bitcast", f"{name}/values", [values], T=self.slices_wire, type=self.wire)
        return nodes.cast(f"{name}/decoded", values, self.wire, dtype)

    @abc.abstractmethod
    def narrowed(self, nodes: NodeList, name: str, tensor: str, dtype: str, count: int) -> str:
        """The tensor in the dtype of the messages; `count` messages will be summed."""
