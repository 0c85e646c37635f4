"""Encoders of messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext

_ENCODERS = ("FP16", "ErrorFeedback(TopK(ratio=0.01))", "OneBit()")
_WORTH_BYTES = 4096


@final
class Compression(Aspect):
    """Whether gradients are sent in fewer bits."""

    name: ClassVar[str] = "compressor"
    changes_results: ClassVar[bool] = True
    words: ClassVar[frozenset[str]] = frozenset(
        {"compressor", *(encoder.partition("(")[0].lower() for encoder in _ENCODERS)}
    )

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """Unencoded, and with each encoder; verification says which encoders a message can have."""
        yield choice
        if sum(variable.size_bytes for variable in context.variables) >= _WORTH_BYTES:
            yield from (dataclasses.replace(choice, compressor=encoder) for encoder in _ENCODERS)
