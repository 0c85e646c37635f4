"""The names of variables that a pattern fits."""

from __future__ import annotations

import glob
import re
from fnmatch import fnmatchcase

__all__ = ["fits_name", "unnumbered"]

_NUMBER = re.compile(r"#\d+$")


def unnumbered(name: str) -> str:
    """The name that a program has given to a variable, without the number by which others of the same name differ.

    Example:
        >>> unnumbered("up/kernel#1"), unnumbered("up/kernel")
        ('up/kernel', 'up/kernel')
    """
    return _NUMBER.sub("", name)


def fits_name(pattern: str, name: str) -> bool:
    """Whether a pattern fits a variable's name.

    One with `*`, `?` or `[` does so with or without the number of the name: which of two models gets the number depends
    on which of them a step reads first. One without them is the name itself.

    Example:
        >>> fits_name("*/kernel", "up/kernel#1"), fits_name("*/kernel#1", "up/kernel#1")
        (True, True)
        >>> fits_name("up/kernel", "up/kernel#1"), fits_name("*/kernel#1", "up/kernel")
        (False, False)
    """
    is_name = glob.escape(pattern) == pattern
    return fnmatchcase(name, pattern) or (not is_name and fnmatchcase(unnumbered(name), pattern))
