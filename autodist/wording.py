"""Words that depend on a number."""

from __future__ import annotations

__all__ = ["counted", "size_text"]


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a number of things in words.

    Args:
        number: How many.
        noun: One of them.
        several: More of them; by default the noun with an s.

    Example:
        >>> counted(1, "trial"), counted(0, "trial"), counted(2000, "search", "searches")
        ('1 trial', '0 trials', '2,000 searches')
    """
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def size_text(size_bytes: float) -> str:
    """Return a number of bytes in words.

    Example:
        >>> size_text(0), size_text(1234), size_text(67_108_864)
        ('0 bytes', '1.2 kB', '67.1 MB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.0f} bytes"
