"""Words that depend on a number."""

from __future__ import annotations

__all__ = ["counted"]


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
