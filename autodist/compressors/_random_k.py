"""Random-k sparsification: the same random entries on all workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged
from autodist.compressors._picked_entries import count, largest, pick, ratio_mistakes, refusal, spread
from autodist.compressors._random_numbers import random_tensor, seed_mistakes
from autodist.registry import raise_mistakes

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class RandomK(Compressor):
    """Sends random entries, the same ones on all workers, without their positions: max(1, ceil(ratio n)) of n.

    All workers draw the positions from the seed, the variable and the number of the step, so only values travel, and
    are summed on the way. Values are sent as they are; the rest is dropped, so that it is mostly used within
    :class:`ErrorFeedback` (Stich et al. 2018, Sparsified SGD with Memory).

    Attributes:
        ratio: The fraction of the entries that is sent, above 0 and up to 1.
        seed: Seed of the positions, at least 0.

    Raises:
        StrategyError: If a parameter is not allowed.
    """

    name: ClassVar[str] = "RandomK"
    ratio: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        raise_mistakes(self.name, [*ratio_mistakes(self.ratio), *seed_mistakes(self.seed)])

    @property
    def in_step(self) -> bool:
        """See the base class."""
        return True

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return count(shape, self.ratio) * FLOATS[dtype]

    def refusal(self, shape: Sequence[int], dtype: str) -> str | None:
        """See the base class."""
        return refusal(shape)

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""
        number = count(shape, self.ratio)
        indices = self._indices(nodes, name, prod(shape), number, channel)
        flat = nodes.reshape(f"{name}/flat", gradient, [-1], dtype)
        values = pick(nodes, f"{name}/values", flat, indices, dtype)
        summed = channel.all_reduce("values", values, dtype, [number])
        return Exchanged(
            total=spread(nodes, f"{name}/total", summed, indices, shape, dtype),
            own=spread(nodes, f"{name}/own", values, indices, shape, dtype),
        )

    def _indices(self, nodes: NodeList, name: str, entries: int, number: int, channel: Channel) -> str:
        """The positions of this step: one random number is drawn per entry, and the largest ones count."""
        first = nodes.constant(f"{name}/step/first", 0, "int64")
        step = channel.state("step", first, "int64", [])
        one = nodes.constant(f"{name}/step/one", 1, "int64")
        channel.keep("step", nodes.add("AddV2", f"{name}/step/next", [step, one], T="int64"))
        numbers = random_tensor(nodes, f"{name}/numbers", [entries], self.seed, step, op="StatelessRandomUniformV2")
        return largest(nodes, f"{name}/indices", numbers, number, "float32")
