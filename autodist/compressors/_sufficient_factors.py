"""Sufficient factors: the two matrices whose product is the gradient of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import FLOATS, Channel, Compressor, Exchanged

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class SufficientFactors(Compressor):
    """Sends the two factors of a dense layer's gradient to its parameter server, which multiplies them; exact.

    One row of both per example, m + n numbers for an m x n kernel (Chilimbi et al. 2014, Project Adam; Xie et al. 2016
    and Zhang et al. 2017, Poseidon, which send them to every worker: the synchronizer Broadcast).

    The factors are found in the graph before any gradient is computed (:func:`autodist.graph.factors_of`), so messages
    need no encoding when they are exchanged.
    """

    name: ClassVar[str] = "SufficientFactors"

    @property
    def lossless(self) -> bool:
        """See the base class."""
        return True

    @property
    def sends_factors(self) -> bool:
        """See the base class."""
        return True

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """The size of the rows of one example in both factors; see :attr:`Compressor.sends_factors`.

        Example:
            >>> SufficientFactors().message_bytes([4096, 1000], "float32")
            20384
        """
        return (shape[0] + prod(shape[1:])) * FLOATS[dtype]

    def refusal(self, shape: Sequence[int], dtype: str) -> str | None:
        """See the base class."""
        return None if len(shape) > 1 else f"a gradient of shape {list(shape)} is not a product of two matrices"

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """Not to be called: see the class."""
        raise NotImplementedError("sufficient factors take the gradient's place before anything is exchanged")
