"""Top-k sparsification: the largest entries of each worker's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged
from autodist.compressors._picked_entries import count, largest, pick, ratio_mistakes, refusal, spread
from autodist.registry import raise_mistakes

if TYPE_CHECKING:
    from autodist.graph import NodeList

_INDEX_BYTES = 4


@final
@dataclass(frozen=True)
class TopK(Compressor):
    """Sends the entries of largest absolute value with their positions: max(1, ceil(ratio n)) of n.

    The rest is dropped, so that it is mostly used within :class:`ErrorFeedback` (Lin et al. 2018, Deep Gradient
    Compression; Stich et al. 2018, Sparsified SGD with Memory).

    Attributes:
        ratio: The fraction of the entries that is sent, above 0 and up to 1.

    Raises:
        StrategyError: If the ratio is not allowed.
    """

    name: ClassVar[str] = "TopK"
    ratio: float = 0.01

    def __post_init__(self) -> None:
        raise_mistakes(self.name, ratio_mistakes(self.ratio))

    @property
    def gathers(self) -> bool:
        """See the base class."""
        return True

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return count(shape, self.ratio) * (FLOATS[dtype] + _INDEX_BYTES)

    def refusal(self, shape: Sequence[int], dtype: str) -> str | None:
        """See the base class."""
        return refusal(shape)

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""
        number = count(shape, self.ratio)
        flat = nodes.reshape(f"{name}/flat", gradient, [-1], dtype)
        indices = largest(nodes, f"{name}/largest", nodes.add("Abs", f"{name}/size", [flat], T=dtype), number, dtype)
        values = pick(nodes, f"{name}/values", flat, indices, dtype)
        all_values = channel.gather("values", values, dtype, [number])
        all_indices = channel.gather("indices", indices, "int32", [number])
        return Exchanged(
            total=spread(nodes, f"{name}/total", all_values, all_indices, shape, dtype),
            own=spread(nodes, f"{name}/own", values, indices, shape, dtype),
        )
