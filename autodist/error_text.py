"""Messages of errors of the system and of TensorFlow, in one line."""

from __future__ import annotations

import re

__all__ = ["said_by"]

_LONGEST = 300
_PLACES = re.compile(r"\[*\{\{.*?\}\}\]*|\[Op:\w+\]")
_LOCATED = re.compile(
    r"Graph execution error:\s*"
    r"(?:Detected at node[^\n]*\n(?:[ \t][^\n]*\n|\n)*(?:Node: '[^\n]*'\n)?)*"
    r"(?:\d+ root error\(s\) found\.)?"
)
"""The heading, where in the program the ops were made, and how many errors there are."""
_AROUND = ("From /job", "Additional")


def said_by(error: BaseException) -> str:
    """Return in one line what an error says, without the devices, nodes and ops that TensorFlow names around it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = _PLACES.sub("", _LOCATED.sub("", getattr(error, "message", "") or str(error)))
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(_AROUND)]
    return lines[0][:_LONGEST] if lines else type(error).__name__
