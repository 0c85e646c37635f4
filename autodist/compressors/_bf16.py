"""Gradients as bfloat16: the range of float32, 8 bits of precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._casting import Cast

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class BF16(Cast):
    """Sends gradients as bfloat16: half the bytes, the range of float32, three significant digits."""

    name: ClassVar[str] = "BF16"
    wire: ClassVar[str] = "bfloat16"

    def narrowed(self, nodes: NodeList, name: str, tensor: str, dtype: str, count: int) -> str:
        """See the base class."""
        return nodes.cast(name, tensor, dtype, self.wire)
