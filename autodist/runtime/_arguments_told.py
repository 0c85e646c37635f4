"""How arguments are cut, in words."""

from __future__ import annotations

from autodist.graph.layouts import ArgumentLayouts
from autodist.runtime.data import Arguments
from autodist.wording import size_text


def cuts_of(arguments: Arguments, cuts: ArgumentLayouts) -> str:
    """Which arguments are cut."""
    pairs = [(name, sorted(dims)) for name, dims in zip(arguments.names, cuts.dims, strict=True) if dims]
    return ", ".join(f"{name} along dim {' and '.join(map(str, dims))}" for name, dims in pairs)


def bytes_of(cuts: ArgumentLayouts) -> str:
    """The bytes that are sent, and those that would be sent for other dims."""
    text = f"hosts send {size_text(cuts.sent_bytes)} in a call"
    if cuts.one_axis is None or len(cuts.tried) == 1:
        return text
    return f"{text}, along other dims up to {size_text(cuts.one_axis[1])}"
