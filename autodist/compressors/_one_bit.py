"""1-bit SGD: signs and two means, with error feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged
from autodist.compressors._feedback import with_feedback

if TYPE_CHECKING:
    from autodist.graph import NodeList

_BITS = [128, 64, 32, 16, 8, 4, 2, 1]


@final
@dataclass(frozen=True)
class OneBit(Compressor):
    """Sends the signs, 8 per byte, and the means of the entries above zero and of the others; with error feedback.

    The other workers see one of the two means instead of each entry. Without error feedback that would not train,
    so it is part of the algorithm (Seide et al. 2014, 1-Bit Stochastic Gradient Descent; there with means by column).
    """

    name: ClassVar[str] = "OneBit"

    @property
    def has_feedback(self) -> bool:
        """See the base class."""
        return True

    @property
    def gathers(self) -> bool:
        """See the base class."""
        return True

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return _num_bytes(shape) + 2 * FLOATS[dtype]

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""
        send = partial(_send, nodes, f"{name}/bits", shape, dtype, channel)
        return with_feedback(nodes, name, gradient, shape, dtype, channel, send)


def _send(nodes: NodeList, name: str, shape: Sequence[int], dtype: str, channel: Channel, corrected: str) -> Exchanged:
    flat = nodes.reshape(f"{name}/flat", corrected, [-1], dtype)
    zero = nodes.constant(f"{name}/zero", 0, dtype)
    above = nodes.add("Greater", f"{name}/above", [flat, zero], T=dtype)
    means = _means(nodes, f"{name}/means", flat, above, prod(shape), dtype)
    packed = _packed(nodes, f"{name}/packed", above, shape)
    all_packed = channel.gather("signs", packed, "uint8", [_num_bytes(shape)])
    all_means = channel.gather("means", means, dtype, [2])
    decoded = _decoded(nodes, f"{name}/all", all_packed, all_means, shape, dtype)
    dim = nodes.constant(f"{name}/dim", [0], "int32")
    total = nodes.add("Sum", f"{name}/sum", [decoded, dim], T=dtype, Tidx="int32", keep_dims=False)
    own = _chosen(nodes, f"{name}/own/flat", above, means, [], dtype)
    return Exchanged(
        total=nodes.reshape(f"{name}/total", total, list(shape), dtype),
        own=nodes.reshape(f"{name}/own", own, list(shape), dtype),
    )


def _num_bytes(shape: Sequence[int]) -> int:
    return -(-prod(shape) // 8)


def _means(nodes: NodeList, name: str, flat: str, above: str, entries: int, dtype: str) -> str:
    """The mean of the entries above zero, and the mean of the others; 0 where there are none."""
    wide = dtype if dtype == "float64" else "float32"
    values = nodes.cast(f"{name}/wide", flat, dtype, wide)
    zero, one = nodes.constant(f"{name}/zero", 0, wide), nodes.constant(f"{name}/one", 1, wide)
    dim = nodes.constant(f"{name}/dim", [0], "int32")
    high = nodes.add("SelectV2", f"{name}/high", [above, values, zero], T=wide)
    low = nodes.add("SelectV2", f"{name}/low", [above, zero, values], T=wide)
    ones = nodes.cast(f"{name}/ones", above, "bool", wide)
    sums = [_sum(nodes, f"{name}/sum_{k}", part, dim, wide) for k, part in enumerate((high, low, ones))]
    entries_node = nodes.constant(f"{name}/entries", entries, wide)
    others = nodes.add("Sub", f"{name}/others", [entries_node, sums[2]], T=wide)
    pairs = []
    for k, counted in enumerate((sums[2], others)):
        number = nodes.add("Maximum", f"{name}/number_{k}", [counted, one], T=wide)
        pairs.append(nodes.add("RealDiv", f"{name}/mean_{k}", [sums[k], number], T=wide))
    both = nodes.add("Pack", f"{name}/both", pairs, N=2, T=wide, axis=0)
    return nodes.cast(name, both, wide, dtype)


def _sum(nodes: NodeList, name: str, tensor: str, dim: str, dtype: str) -> str:
    return nodes.add("Sum", name, [tensor, dim], T=dtype, Tidx="int32", keep_dims=False)


def _packed(nodes: NodeList, name: str, above: str, shape: Sequence[int]) -> str:
    """Eight bits per byte, the first one the highest; missing ones are zero."""
    padding = nodes.constant(f"{name}/padding", [False] * (8 * _num_bytes(shape) - prod(shape)), "bool")
    padded = nodes.concat(f"{name}/padded", [above, padding], "bool")
    ones = nodes.cast(f"{name}/ones", padded, "bool", "uint8")
    octets = nodes.reshape(f"{name}/octets", ones, [_num_bytes(shape), 8], "uint8")
    masks = nodes.constant(f"{name}/masks", _BITS, "uint8")
    weighted = nodes.add("Mul", f"{name}/weighted", [octets, masks], T="uint8")
    dim = nodes.constant(f"{name}/dim", [1], "int32")
    return _sum(nodes, name, weighted, dim, "uint8")


def _decoded(nodes: NodeList, name: str, packed: str, means: str, shape: Sequence[int], dtype: str) -> str:
    """The contents of all workers' messages: ``[n, entries]``."""
    size, entries = _num_bytes(shape), prod(shape)
    masks = nodes.constant(f"{name}/masks", _BITS, "uint8")
    column = nodes.reshape(f"{name}/column", packed, [-1, size, 1], "uint8")
    masked = nodes.add("BitwiseAnd", f"{name}/masked", [column, masks], T="uint8")
    flags = nodes.cast(f"{name}/flags", masked, "uint8", "bool")
    rows = nodes.reshape(f"{name}/rows", flags, [-1, 8 * size], "bool")
    begin = nodes.constant(f"{name}/begin", [0, 0], "int32")
    wanted = nodes.constant(f"{name}/wanted", [-1, entries], "int32")
    above = nodes.add("Slice", f"{name}/above", [rows, begin, wanted], T="bool", Index="int32")
    return _chosen(nodes, name, above, means, [-1], dtype)


def _chosen(nodes: NodeList, name: str, above: str, means: str, lead: Sequence[int], dtype: str) -> str:
    """The first mean where a bit is set, the second elsewhere."""
    halves = []
    for k in range(2):
        begin = nodes.constant(f"{name}/begin_{k}", [*(0 for _ in lead), k], "int32")
        size = nodes.constant(f"{name}/size_{k}", [*lead, 1], "int32")
        halves.append(nodes.add("Slice", f"{name}/mean_{k}", [means, begin, size], T=dtype, Index="int32"))
    return nodes.add("SelectV2", name, [above, *halves], T=dtype)
