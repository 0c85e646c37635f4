"""Figures that are kept in files, with the machine that they are of."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

from autodist import __version__

__all__ = ["kept", "machine", "save"]

_PACKAGES = ("tensorflow-cpu", "keras", "horovod", "numpy")


def kept(path: Path) -> list[dict[str, Any]]:
    """What is in a file so far: nothing, if there is none."""
    return json.loads(path.read_text()) if path.exists() else []


def save(figures: list[dict[str, Any]], path: Path) -> None:
    """Replace the file, at once."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(figures, indent=1) + "\n")
    partial.replace(path)


def machine() -> dict[str, Any]:
    """This machine, and the versions of what runs on it."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    versions = {"autodist": __version__} | {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"cores": os.cpu_count(), "memory_gb": round(gigabytes), "system": platform.platform()} | versions
