"""Versions of what a run needs, found without importing any of it: the standard library only."""

from __future__ import annotations

import glob
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["versions"]

_PACKAGES = (
    "autodist", "tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm", "keras", "horovod", "numpy",
)  # fmt: skip
_TIMEOUT_S = 60.0


def versions(python: str = "") -> dict[str, Any]:
    """Return the versions in one interpreter of this machine.

    Args:
        python: Path of the interpreter; empty for the one that runs this.

    Returns:
        ``python`` (its version), ``executable``, ``packages`` (version by name of the distribution, those that are
        installed), ``has_horovod`` (whether it was built for TensorFlow) and ``has_tcp`` (whether AutoDist's own
        library was built); nothing if there is no such interpreter.

    Raises:
        RuntimeError: The other interpreter gives no answer.

    """
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        return _asked(python)
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "has_horovod": _has("horovod", "tensorflow", "mpi_lib*.so"),
        "has_tcp": _has("autodist", "transport", "_collectives*.so"),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _has(package: str, *path: str) -> bool:
    """Whether an installed package has a file."""
    return any(glob.glob(os.path.join(glob.escape(folder), *path)) for folder in _folders(package))


def _folders(package: str) -> Iterable[str]:
    """Where a package is installed; an agent has a package `autodist` of its own, so `find_spec` would say that."""
    for finder in sys.meta_path:
        try:
            found = finder.find_spec(package, None)
        except (AttributeError, ImportError, ValueError):
            continue
        if found is not None:
            return found.submodule_search_locations or ()
    return ()


def _asked(python: str) -> dict[str, Any]:
    """Have another interpreter run this module."""
    loader: Any = sys.modules[__name__].__loader__
    source, command = loader.get_source(__name__), [python, "-", "--ask"]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
    except OSError:
        return {}
    except (ValueError, subprocess.SubprocessError) as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise RuntimeError(f"`{python}` can't be asked for its versions: {told[-1] if told else error}") from error
    return answer


if __name__ == "__main__" and sys.argv[1:] == ["--ask"]:
    sys.path[:] = [entry for entry in sys.path if entry]  # what lies in this directory is not what is installed
    print(json.dumps(versions()))  # noqa: T201
