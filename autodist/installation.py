"""What AutoDist is installed as, what it needs, and what to type where that is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys

from autodist.errors import NotInstalled

__all__ = ["DISTRIBUTION", "TENSORFLOW", "check_tensorflow", "explain_import_error", "install_command"]

DISTRIBUTION = "autodist-tf"
"""What pip calls this package: ``autodist`` is another project there."""

TENSORFLOW = "2.21"
"""The version of TensorFlow that AutoDist works with: it rewrites graphs, so it depends on more than the public API."""

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
        raise NotInstalled(f"TensorFlow is not installed for `{sys.executable}`", hint=_remedy())
    if found and not found.startswith(f"{TENSORFLOW}."):
        raise NotInstalled(
            f"TensorFlow {found} is installed for `{sys.executable}`, AutoDist works with {TENSORFLOW}", hint=_remedy()
        )


def explain_import_error(error: ImportError) -> NotInstalled | None:
    """Return our error for an import that has failed because TensorFlow, or what comes with it, is not installed."""
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in ("tensorflow", "keras"):
        return None
    name = {"tensorflow": "TensorFlow", "keras": "Keras"}[package]
    return NotInstalled(f"{name} is not installed for `{sys.executable}`", hint=_remedy())


def _remedy() -> str:
    return f'`{install_command()}`, or `"{DISTRIBUTION}[gpu]"` for NVIDIA GPUs'


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
