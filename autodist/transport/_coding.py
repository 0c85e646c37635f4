"""On which links floats are encoded, and how many bytes that saves."""

from __future__ import annotations

CODED_SHARE = 7 / 8
"""The part of its bytes that a float needs there: four bits replace the eight of its exponent.

A few that are far smaller than their neighbours need more: a byte of their own for the exponent.
"""
LEAST_CODED_BYTES = 4 << 10
"""Fewer bytes are sent as fast as they are encoded."""
_CODED_GBPS = 0.5
"""Links must be slower than this: at 1 Gbit/s, encoding takes about the time that it saves."""


def is_coded(bandwidth_gbps: float) -> bool:
    """Return whether floats of 32 bits are encoded, without loss, on a link of this bandwidth.

    Example:
        >>> is_coded(0.25), is_coded(10.0)
        (True, False)
    """
    return bandwidth_gbps <= _CODED_GBPS
