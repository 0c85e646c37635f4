"""Error feedback around any lossy compressor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

from autodist.compressors._base import Channel, Compressor, Exchanged, Wrapper
from autodist.compressors._feedback import with_feedback
from autodist.compressors._top_k import TopK
from autodist.registry import raise_mistakes

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class ErrorFeedback(Wrapper):
    """Adds the part that the last message lost to the next gradient: nothing is lost, but some of it is late.

    Every worker keeps the residual e in a variable of the gradient's size: it sends C(g + e), then e = g + e - C(g + e)
    (Seide et al. 2014; Karimireddy et al. 2019, Error Feedback Fixes SignSGD).

    Attributes:
        inner: A compressor that loses something and has no error feedback of its own.

    Raises:
        StrategyError: If there is nothing to feed back.
    """

    name: ClassVar[str] = "ErrorFeedback"
    inner: Compressor = field(default_factory=TopK)

    def __post_init__(self) -> None:
        mistakes = []
        if self.inner.lossless:
            mistakes.append(f"`{self.inner}` loses nothing, allowed: a compressor that is lossy")
        if self.inner.has_feedback:
            mistakes.append(f"`{self.inner}` has error feedback already, allowed: a compressor without")
        raise_mistakes("ErrorFeedback", mistakes)

    @property
    def has_feedback(self) -> bool:
        """See the base class."""
        return True

    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """See the base class."""

        def inner(corrected: str) -> Exchanged:
            return self.inner.exchange(nodes, f"{name}/{self.inner.name}", corrected, shape, dtype, channel)

        return with_feedback(nodes, name, gradient, shape, dtype, channel, inner)
