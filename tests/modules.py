"""Where processes that tests start find the modules that the tests themselves find."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def python_path(*first: Path) -> str:
    """A value of ``PYTHONPATH``: the directory of the project, or others before what this process has.

    Args:
        first: These directories instead of that of the project.
    """
    return os.pathsep.join([*map(str, first or (TESTS.parent,)), *sys.path[1:]])
