"""``autodist env``: what to paste into a bug report."""

from __future__ import annotations

import json

import click

from autodist.cli._options import debug_option

__all__ = ["env"]

_SCHEMA_VERSION = 1
_PACKAGES = ("autodist", "tensorflow", "tensorflow-cpu", "keras", "horovod", "numpy")


@click.command("env", epilog="Example: autodist env --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def env(as_json: bool) -> None:
    """Print versions and machine, ready to be pasted into a bug report."""
    facts = _facts()
    if as_json:
        click.echo(json.dumps({"schema_version": _SCHEMA_VERSION, **facts}, indent=2))
        return
    from autodist.report import show_facts

    show_facts({name: "no" if value is None else value for name, value in facts.items()})


def _facts() -> dict[str, object]:
    import os
    import platform
    import sys

    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        **_versions(),
        "os": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _versions() -> dict[str, str | None]:
    """Versions of installed packages, from their metadata; the two wheels of TensorFlow are one package here."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for package in _PACKAGES:
        name = package.removesuffix("-cpu")
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found.setdefault(name, None)
    return found
