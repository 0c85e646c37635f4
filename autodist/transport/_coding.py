"""On which links floats are encoded, and how much less that is."""

from __future__ import annotations

CODED_SHARE = 7 / 8
"""The part of its bytes that a float needs there: four bits replace the eight of its exponent.

A few that are far smaller than their neighbours need more: a byte of their own for the exponent.
"""
LEAST_CODED_BYTES = 4 << 10
"""A smaller number is gone as soon as it is encoded."""
_CODED_GBPS = 0.5
"""Codes take processors about the time that a link of 1 Gbit/s gains by them, so a link has to be slower."""


def is_coded(bandwidth_gbps: float) -> bool:
    """Return whether floats of 32 bits are encoded, without loss, where a link carries so much.

    Example:
        >>> is_coded(0.25), is_coded(10.0)
        (True, False)
    """
    return bandwidth_gbps <= _CODED_GBPS
