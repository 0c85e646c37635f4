"""PowerSGD: gradients as products of two thin matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged, size_bytes
from autodist.compressors._random_numbers import random_tensor, seed_mistakes
from autodist.registry import raise_mistakes

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class PowerSGD(Compressor):
    """Sends two thin matrices whose product approximates the summed gradient, by one step of a power iteration.

    The gradient is a matrix M of ``[shape[0], the rest]``. With Q from the step before: P = sum of M Q, orthonormal
    columns for P, then Q = sum of M^T P; the total is P Q^T. Mostly used within :class:`ErrorFeedback` (Vogels et al.
    2019, PowerSGD). A gradient that this does not make smaller, such as a vector, is sent unchanged.

    Attributes:
        rank: Columns of P and Q, at least 1.
        seed: Seed of the first Q, at least 0.

    Raises:
        StrategyError: If a parameter is not allowed.
    """

    name: ClassVar[str] = "PowerSGD"
    rank: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        good = type(self.rank) is int and self.rank >= 1
        mistakes = [] if good else [f"`rank` is {self.rank!r}, allowed: a whole number of at least 1"]
        raise_mistakes(self.name, [*mistakes, *seed_mistakes(self.seed)])

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return min(size_bytes(shape, dtype), self._factors_bytes(shape, dtype))

    def rounds(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class: P is known before Q can be sent."""
        return 2 if self._pays(shape, dtype) else 1

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""
        if not self._pays(shape, dtype):
            return Exchanged(total=channel.all_reduce("whole", gradient, dtype, shape), own=gradient)
        wide = _wide(dtype)
        matrix = nodes.reshape(f"{name}/matrix", nodes.cast(f"{name}/wide", gradient, dtype, wide), _sides(shape), wide)
        p, own_q, q = self._factors(nodes, name, matrix, shape, wide, channel)
        return Exchanged(
            total=self._product(nodes, f"{name}/total", p, q, shape, dtype),
            own=self._product(nodes, f"{name}/own", p, own_q, shape, dtype),
        )

    def _factors(
        self, nodes: NodeList, name: str, matrix: str, shape: Sequence[int], wide: str, channel: Channel
    ) -> tuple[str, str, str]:
        """The common P, this worker's Q and the common Q."""
        rows, columns = _sides(shape)
        warm = self._start(nodes, f"{name}/start", columns, wide, channel)
        own_p = nodes.add("MatMul", f"{name}/own_p", [matrix, warm], T=wide)
        p = channel.all_reduce("p", own_p, wide, [rows, self.rank])
        basis = nodes.add("Qr", f"{name}/basis", [p], T=wide, full_matrices=False)
        own_q = nodes.add("MatMul", f"{name}/own_q", [matrix, basis], T=wide, transpose_a=True)
        q = channel.all_reduce("q", own_q, wide, [columns, self.rank])
        channel.keep("q", q)
        return basis, own_q, q

    def _start(self, nodes: NodeList, name: str, columns: int, wide: str, channel: Channel) -> str:
        """Q of the step before. A column of zeros would stay zero, so it is replaced by a random one."""
        step = nodes.constant(f"{name}/step", 0, "int64")
        draw = random_tensor(
            nodes, f"{name}/random", [columns, self.rank], self.seed, step, op="StatelessRandomNormalV2"
        )
        random = nodes.cast(f"{name}/random/cast", draw, "float32", wide)
        warm = channel.state("q", random, wide, [columns, self.rank])
        dim, zero = nodes.constant(f"{name}/dim", [0], "int32"), nodes.constant(f"{name}/zero", 0, wide)
        size = nodes.add("Abs", f"{name}/size", [warm], T=wide)
        largest = nodes.add("Max", f"{name}/largest", [size, dim], T=wide, Tidx="int32", keep_dims=True)
        alive = nodes.add("Greater", f"{name}/alive", [largest, zero], T=wide)
        return nodes.add("SelectV2", name, [alive, warm, random], T=wide)

    def _product(self, nodes: NodeList, name: str, p: str, q: str, shape: Sequence[int], dtype: str) -> str:
        wide = _wide(dtype)
        product = nodes.add("MatMul", f"{name}/matrix", [p, q], T=wide, transpose_b=True)
        shaped = nodes.reshape(f"{name}/shaped", product, list(shape), wide)
        return nodes.cast(name, shaped, wide, dtype)

    def _pays(self, shape: Sequence[int], dtype: str) -> bool:
        return self._factors_bytes(shape, dtype) < size_bytes(shape, dtype)

    def _factors_bytes(self, shape: Sequence[int], dtype: str) -> int:
        return sum(_sides(shape)) * self.rank * FLOATS[_wide(dtype)]


def _sides(shape: Sequence[int]) -> tuple[int, int]:
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _wide(dtype: str) -> str:
    """The dtype of the factors: orthogonalization in 16 bits is not orthogonal."""
    return dtype if dtype == "float64" else "float32"
