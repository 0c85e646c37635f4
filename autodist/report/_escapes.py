"""Escape sequences in what workers write: colours may pass, whatever moves the cursor may not."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(
    r"\x1b\[[0-9;:<=>?]*[ -/]*[@-ln-~]"  # CSI, all but colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[@-Z\\^_=>78]"  # short ones
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"  # control characters other than tab, line feed and escape
)


def only_colours(text: str) -> str:
    r"""Text without control sequences other than colours.

    Example:
        >>> only_colours("a\x1b[2K\x1b[31mb")
        'a\x1b[31mb'
    """
    return _CONTROL.sub("", text)


def plain(text: str) -> str:
    r"""Text without any control sequence.

    Example:
        >>> plain("a\x1b[2K\x1b[31mb")
        'ab'
    """
    return _COLOUR.sub("", _CONTROL.sub("", text)).replace("\x1b", "")
