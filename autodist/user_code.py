"""Which lines are the user's own, and not those of Python, AutoDist, TensorFlow or another library."""

from __future__ import annotations

import functools
import os
from pathlib import Path

__all__ = ["OUR_DIRECTORY", "is_user_code", "shown_file"]

OUR_DIRECTORY = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Where the files of this package are."""
_PYTHONS = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_LIBRARIES = ("site-packages", "dist-packages")
_GENERATED = "__autograph_generated_file"


@functools.lru_cache(maxsize=4096)
def is_user_code(file: str) -> bool:
    """Whether a file, as tracebacks name it, is the user's.

    Example:
        >>> is_user_code("train.py"), is_user_code(os.__file__), is_user_code("<frozen runpy>")
        (True, False, False)
    """
    if file.startswith("<"):
        return False
    parts = Path(file).parts
    is_library = any(name in parts for name in _LIBRARIES) or os.path.abspath(file).startswith(
        (OUR_DIRECTORY, _PYTHONS)
    )
    return not is_library and not os.path.basename(file).startswith(_GENERATED)


def shown_file(file: str, script: str) -> str:
    """Return a file's path the way users know it: the script's as they typed it, others from where they or it are."""
    if file == script or not os.path.isabs(file):
        return file
    for directory in (os.getcwd(), os.path.dirname(os.path.realpath(script))):
        if file.startswith(directory.rstrip(os.sep) + os.sep):
            return os.path.relpath(file, directory)
    return file
