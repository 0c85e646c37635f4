"""The module that makes pages of the reference; it is no part of the package."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

FILE = Path(__file__).parents[2] / "scripts" / "reference_pages.py"


@functools.cache
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
