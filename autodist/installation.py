"""What AutoDist is installed as, what it needs, and what to type where that is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys

from autodist.errors import NotInstalled

__all__ = [
    "COMPILER_REMEDY",
    "DISTRIBUTION",
    "OPENSSL_REMEDY",
    "TENSORFLOW",
    "check_tensorflow",
    "explain_import_error",
    "horovod_remedy",
    "install_command",
    "is_supported",
    "tcp_remedy",
    "tensorflow_remedy",
]

DISTRIBUTION = "autodist-tf"
"""What pip calls this package: ``autodist`` is another project there."""

TENSORFLOW = "2.21"
"""The version of TensorFlow that AutoDist works with: it rewrites graphs, so it depends on more than the public API."""

OPENSSL_REMEDY = "`apt-get install libssl3`, if runs are to be encrypted (`autodist run --encrypt`)"

COMPILER_REMEDY = "`apt-get install g++`, if AutoDist's own library or Horovod is to be built there"

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
        raise NotInstalled(f"TensorFlow is not installed for `{sys.executable}`", hint=tensorflow_remedy())
    if found and not is_supported(found):
        raise NotInstalled(
            f"TensorFlow {found} is installed for `{sys.executable}`, AutoDist works with {TENSORFLOW}",
            hint=tensorflow_remedy(),
        )


def explain_import_error(error: ImportError) -> NotInstalled | None:
    """Return our error for an import that has failed because TensorFlow, or what comes with it, is not installed."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in ("tensorflow", "keras"):
        return None
    name = {"tensorflow": "TensorFlow", "keras": "Keras"}[package]
    return NotInstalled(f"{name} is not installed for `{sys.executable}`", hint=tensorflow_remedy())


def is_supported(version: str) -> bool:
    """Whether AutoDist works with a version of TensorFlow."""
    return version.startswith(f"{TENSORFLOW}.")


def tensorflow_remedy() -> str:
    """Return what to do where there is no TensorFlow, or another version than it must be."""
    return f'`{install_command()}`, or `"{DISTRIBUTION}[gpu]"` for NVIDIA GPUs'


def tcp_remedy(python: str, compiler: str) -> str:
    """Return what to do where AutoDist's own library is missing.

    Args:
        python: The interpreter that is to have it.
        compiler: The compiler of C++ there; empty if there is none.

    """
    again = f"install AutoDist again for `{python}`, from where it was installed: that builds the library"
    return again if compiler else f"`apt-get install g++`, then {again}"


def horovod_remedy(python: str) -> str:
    """Return what to do where Horovod is missing, or was built without TensorFlow."""
    return (
        f"`scripts/install-horovod {python}` in AutoDist's directory builds it, in some minutes; that needs "
        "`apt-get install cmake g++ make`"
    )


def _tensorflow_version() -> str | None:
    """Return the version of TensorFlow: None if there is none, empty if it does not say."""
    loaded = sys.modules.get("tensorflow")
    if loaded is not None:
        return str(getattr(loaded, "__version__", ""))
    if importlib.util.find_spec("tensorflow") is None:
        return None
    for wheel in _WHEELS:
        try:
            return importlib.metadata.version(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
