"""The name under which AutoDist is installed, its needs, and the commands that mend what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys

from autodist.errors import NotInstalled

__all__ = [
    "COMPILER_REMEDY",
    "COSTS",
    "DISTRIBUTION",
    "OPENSSL_REMEDY",
    "TENSORFLOW",
    "TENSORFLOW_ALONE",
    "autodist_remedy",
    "check_tensorflow",
    "explain_import_error",
    "install_command",
    "is_supported",
    "tensorflow_remedy",
    "trials_file",
    "version",
]

DISTRIBUTION = "autodist-tf"
"""Pip's name for this package: ``autodist`` is another project there."""

TENSORFLOW = "2.21"
"""The version of TensorFlow that AutoDist works with: it rewrites graphs, so it depends on more than the public API."""

TENSORFLOW_ALONE = "`--strategy \"AllReduce(communicator='collective')\" --allow-open-ports`"
"""Options of a run in which nothing but TensorFlow connects workers."""

OPENSSL_REMEDY = "`apt-get install libssl3`, if runs are to be encrypted (`autodist run --encrypt`)"

COMPILER_REMEDY = "`apt-get install g++`, if AutoDist's own library or Horovod is to be built there"

COSTS = {
    "tensorflow": "nothing can be trained",
    "keras": "nothing can be trained",
    "openssl": "`--encrypt` is refused",
    "compiler": "nothing where AutoDist's own library is there",
}
"""The price of a missing part, by its name in ``autodist env``; carriers say theirs themselves."""

_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm")


def install_command(extra: str = "cpu") -> str:
    """Return what installs AutoDist with what an extra of it names.

    Example:
        >>> install_command()
        'pip install "autodist-tf[cpu]"'
    """
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def check_tensorflow() -> None:
    """Check that TensorFlow is there, in the version that AutoDist works with; imports nothing.

    Raises:
        NotInstalled: It is not.
    """
    found = _tensorflow_version()
    if found is None:
        raise NotInstalled(
            f"TensorFlow is not installed for `{sys.executable}`", hint=tensorflow_remedy(sys.executable)
        )
    if found and not is_supported(found):
        raise NotInstalled(
            f"TensorFlow {found} is installed for `{sys.executable}`, AutoDist works with {TENSORFLOW}",
            hint=tensorflow_remedy(sys.executable, _tensorflow_wheel()),
        )


def explain_import_error(error: ImportError) -> NotInstalled | None:
    """Return our error for an import that has failed because TensorFlow, or what comes with it, is not installed."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in ("tensorflow", "keras"):
        return None
    name = {"tensorflow": "TensorFlow", "keras": "Keras"}[package]
    return NotInstalled(f"{name} is not installed for `{sys.executable}`", hint=tensorflow_remedy(sys.executable))


def is_supported(version: str) -> bool:
    """Whether AutoDist works with a version of TensorFlow."""
    return version.startswith(f"{TENSORFLOW}.")


def tensorflow_remedy(python: str = "python", wheel: str = "") -> str:
    """Return what to do where TensorFlow is missing, or is of another version than AutoDist needs.

    Args:
        python: The interpreter that is to have it.
        wheel: Which of TensorFlow's wheels is there; the other one must not be installed over it.

    Example:
        >>> tensorflow_remedy("/venv/bin/python", "tensorflow")
        '`/venv/bin/python -m pip install "tensorflow==2.21.*"`'
    """
    command = f'`{python} -m pip install "{wheel or "tensorflow-cpu"}=={TENSORFLOW}.*"`'
    return command if wheel else f'{command}, or `"tensorflow[and-cuda]=={TENSORFLOW}.*"` for NVIDIA GPUs'


def autodist_remedy(python: str, version: str = "") -> str:
    """Return what to do where AutoDist is missing, or is of another version.

    Args:
        python: The interpreter that is to have it.
        version: Which one the others have; empty if that is not known.
    """
    wanted = f"{DISTRIBUTION}[cpu]=={version}" if version else f"{DISTRIBUTION}[cpu]"
    return f'`{python} -m pip install "{wanted}"`, or with the wheel that `make wheel` has built instead of the name'


def _tensorflow_wheel() -> str:
    """Return what TensorFlow was installed as; empty if nothing says."""
    installed = (wheel for wheel in _WHEELS if any(importlib.metadata.distributions(name=wheel)))
    return next(installed, "")


def _tensorflow_version() -> str | None:
    """Return the version of TensorFlow: None if there is none, empty if it does not say."""
    loaded = sys.modules.get("tensorflow")
    if loaded is not None:
        return str(getattr(loaded, "__version__", ""))
    if importlib.util.find_spec("tensorflow") is None:
        return None
    wheel = _tensorflow_wheel()
    return importlib.metadata.version(wheel) if wheel else ""


def version() -> str:
    """Return AutoDist's version."""
    return str(sys.modules["autodist"].__version__)


def trials_file() -> str:
    """Where searches keep trials, and others look for them, if nothing else is said."""
    return os.environ.get("AUTODIST_STORE") or "runs/trials.db"
