"""Versions of what a run needs, found without importing any of it: the standard library only."""

from __future__ import annotations

import ctypes
import glob
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["compiler", "versions"]

_BUILT = {"tcp": ("autodist", "transport", "_collectives*.so"), "horovod": ("horovod", "tensorflow", "mpi_lib*.so")}
"""Per carrier, the file that exists only where it was built; other carriers are there with their package."""

_CARRIERS = "autodist.carriers"
"""The entry points of packages that bring carriers."""

_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm"),
    "keras": ("keras",),
    "numpy": ("numpy",),
}
"""The projects that bring a package; the first that is installed counts."""

_TIMEOUT_S = 60.0
_COMPILER_TIMEOUT_S = 10.0


def versions(python: str = "") -> dict[str, Any]:
    """Return the versions in one interpreter of this machine.

    Args:
        python: Path of the interpreter; empty for the one that runs this.

    Returns:
        ``python`` (its version), ``executable``, ``packages`` (version by name, those that are installed, with
        carriers among them),
        ``carriers`` (names of those that need not be there and are) and ``has_openssl`` (whether there is the one that
        AutoDist's own library encrypts with); nothing if there is no such interpreter.

    Raises:
        RuntimeError: The other interpreter gives no answer.
    """
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        return _asked(python)
    built, others = [name for name, file in _BUILT.items() if _has(*file)], _carriers_of_others()
    found = {**others, "autodist": _own_version()}
    found |= {name: _version(*wheels) for name, wheels in _DISTRIBUTIONS.items()}
    # A carrier that was built without TensorFlow does not count; AutoDist's own library has AutoDist's version.
    found |= {name: found.get(package) or _version(package) for name in built for package in _BUILT[name][:1]}
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: version for name, version in found.items() if version},
        "carriers": [*built, *others],
        "has_openssl": _can_load("libssl.so.3"),
    }


def compiler() -> str:
    """Return the compiler of C++ that an installation would use, such as ``"g++ 12.2.0"``; empty if there is none."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "c++", "clang++")):
        path = shutil.which(name)
        if path is not None:
            return f"{os.path.basename(path)} {_compiler_version(path)}".strip()
    return ""


def _compiler_version(path: str) -> str:
    command = [path, "-dumpfullversion", "-dumpversion"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILER_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _own_version() -> str:
    """Return the version that AutoDist's source has: its metadata are those of the last installation."""
    for folder in _folders("autodist"):
        try:
            with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
                match = re.search(r'^__version__ = "(.+)"$', file.read(), re.MULTILINE)
        except OSError:
            continue
        if match is not None:
            return match[1]
    return ""


def _version(*names: str) -> str:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _has(package: str, *path: str) -> bool:
    """Whether an installed package has a file."""
    return any(glob.glob(os.path.join(glob.escape(folder), *path)) for folder in _folders(package))


def _carriers_of_others() -> dict[str, str]:
    """Return the versions of the packages that bring other carriers, by the carrier's name."""
    found = importlib.metadata.entry_points()
    entries = found.select(group=_CARRIERS) if hasattr(found, "select") else found.get(_CARRIERS, ())
    # Before Python 3.10 an entry point does not tell its package.
    versions = {entry.name: getattr(getattr(entry, "dist", None), "version", "") for entry in entries}
    return dict(sorted(versions.items()))


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


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
