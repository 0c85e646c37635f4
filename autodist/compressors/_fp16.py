"""Gradients as float16: 11 bits of precision, numbers from 6e-8 to 65504."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._casting import Cast

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class FP16(Cast):
    """Sends gradients as float16: half the bytes, four significant digits, saturates beyond 65504.

    A finite gradient never becomes infinite, neither here nor in the sum over n workers: each worker's part is limited
    to 65504 / n. Infinities and NaN are kept, because loss scaling looks for them. Gradients below 6e-8 vanish,
    unless :class:`ErrorFeedback` adds them up.
    """

    name: ClassVar[str] = "FP16"
    wire: ClassVar[str] = "float16"

    def narrowed(self, nodes: NodeList, name: str, tensor: str, dtype: str, count: int) -> str:
        """See the base class."""
        if dtype == self.wire:
            return tensor
        if dtype == "bfloat16":  # bfloat16 would round the limit up
            tensor, dtype = nodes.cast(f"{name}/wide", tensor, dtype, "float32"), "float32"
        limit = _largest(count)
        high = nodes.constant(f"{name}/high", limit, dtype)
        low = nodes.constant(f"{name}/low", -limit, dtype)
        below = nodes.add("Minimum", f"{name}/below", [tensor, high], T=dtype)
        bounded = nodes.add("Maximum", f"{name}/bounded", [below, low], T=dtype)
        finite = nodes.add("IsFinite", f"{name}/finite", [tensor], T=dtype)
        saturated = nodes.add("SelectV2", f"{name}/saturated", [finite, bounded, tensor], T=dtype)
        return nodes.cast(name, saturated, dtype, self.wire)


def _largest(count: int) -> float:
    """The largest float16 of which `count` can be added without overflow."""
    import numpy as np  # `import autodist.strategies` must not load it

    limit = np.finfo(np.float16).max / np.float64(count)
    rounded = np.float16(limit)
    return float(rounded if rounded <= limit else np.nextafter(rounded, np.float16(0)))
