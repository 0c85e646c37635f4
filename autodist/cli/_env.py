"""``autodist env``: what to paste into a bug report."""

from __future__ import annotations

import json

import click

from autodist.cli.options import debug_option

_SCHEMA_VERSION = 1


@click.command("env", epilog="Example: autodist env --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def env(as_json: bool) -> None:
    """Print versions and machine, ready to be pasted into a bug report.

    Where something is missing, it says what that costs, and what to do.
    """
    facts = _facts()
    remedies = {name: remedy for name, remedy in _remedies(facts).items() if facts[name] is None}
    costs = {name: _costs()[name] for name in remedies}
    if as_json:
        told = {"schema_version": _SCHEMA_VERSION, **facts, "costs": costs, "remedies": remedies}
        click.echo(json.dumps(told, indent=2))
        return
    from autodist.report import show_facts

    missing = {name: f"no, that costs: {costs[name]}; remedy: {remedies[name]}" for name in remedies}
    show_facts({name: missing.get(name, "no") if value is None else value for name, value in facts.items()})


def _facts() -> dict[str, object]:
    import os
    import platform

    from autodist import carriers
    from autodist.agent import compiler, versions

    found = versions()
    packages = found["packages"]
    return {
        "python": found["python"],
        "executable": found["executable"],
        **{name: packages.get(name) for name in ("autodist", "tensorflow", "keras", "numpy")},
        **{carrier.name: packages.get(carrier.name) for carrier in carriers.optional()},
        "openssl": "3" if found["has_openssl"] else None,
        "compiler": compiler() or None,
        "os": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _costs() -> dict[str, str]:
    from autodist import carriers
    from autodist.installation import COSTS

    return COSTS | {carrier.name: carrier.cost for carrier in carriers.optional()}


def _remedies(facts: dict[str, object]) -> dict[str, str]:
    """Return what to do where each of the parts is missing."""
    from autodist import carriers
    from autodist.installation import COMPILER_REMEDY, OPENSSL_REMEDY, tensorflow_remedy

    python, compiler = str(facts["executable"]), str(facts["compiler"] or "")
    return {
        "tensorflow": tensorflow_remedy(python),
        "keras": tensorflow_remedy(python),
        **{carrier.name: carrier.instructions(python, compiler) for carrier in carriers.optional()},
        "openssl": OPENSSL_REMEDY,
        "compiler": COMPILER_REMEDY,
    }
