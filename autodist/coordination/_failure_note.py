"""A worker's note to the launcher about its own failure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FailureNote:
    """A failure, as the worker that has it sees it.

    Attributes:
        message: What went wrong, such as ``"ValueError: no"``; may have several lines.
        exit_code: What the process is about to return.
        hint: What to do about it; empty if the worker does not know.
        place: The user's line it comes from, ``"train.py:12"``; empty if there is none.
        trace: How the user's own code came there, a line for each call.
        is_echo: Whether it has only noticed that another worker has failed.
    """

    message: str
    exit_code: int = 1
    hint: str = ""
    place: str = ""
    trace: tuple[str, ...] = ()
    is_echo: bool = False

    def to_json(self) -> str:
        """Return what :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FailureNote:
        """Read a note.

        Raises:
            ValueError, TypeError: It is not a note.
        """
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "trace": tuple(fields["trace"])})
