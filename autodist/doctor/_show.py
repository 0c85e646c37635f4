"""A diagnosis on the console and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from autodist import carriers
from autodist.doctor._diagnose import Diagnosis
from autodist.doctor._examination import MachineVisit
from autodist.doctor._finding import Finding, Status
from autodist.doctor._probe_pairs import MeasuredLink
from autodist.report import fitted_table, plain_text, table_console

if TYPE_CHECKING:
    from rich.console import Console

_SCHEMA_VERSION = 1
_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}
_MOST_IN_MATRIX = 16
_NUMBERS = ("Cores", "Memory GB", "GPUs", "Disk GB", "Clock ms")
_DISPENSABLE = ("AutoDist", "Clock ms", "Disk GB", "Keras", "Memory GB", "Python", "Compiler")
"""Columns that narrow terminals leave out, in this order; then those of carriers."""


def to_json(diagnosis: Diagnosis) -> str:
    """Return everything as JSON."""
    visits = diagnosis.examination.visits
    content = {
        "schema_version": _SCHEMA_VERSION,
        "status": diagnosis.worst.value,
        "hosts": [_facts(visit) for visit in visits],
        "findings": [{**asdict(finding), "status": finding.status.value} for finding in diagnosis.findings],
        "links": [{**asdict(link), "bandwidth_gbps": link.bandwidth_gbps} for link in diagnosis.links],
    }
    return json.dumps(content, indent=2)


def _facts(visit: MachineVisit) -> dict[str, Any]:
    reached = {"host": visit.name, "workers": [host.name for host in visit.hosts], "is_reached": visit.error is None}
    if visit.facts is None:
        return reached
    clock = {"clock_ahead_s": visit.clock_ahead_s, "clock_error_s": visit.clock_error_s}
    return {**reached, **asdict(visit.facts), **clock}


def show_diagnosis(diagnosis: Diagnosis, *, everything: bool = False, console: Console | None = None) -> None:
    """Show the machines, what is wrong with a remedy each, and the links.

    Args:
        diagnosis: What was found.
        everything: Whether to show also what is all right.
        console: Where; standard output by default.
    """
    from rich.padding import Padding
    from rich.text import Text

    console = console or table_console()
    console.print(_machines(diagnosis, console.width))
    shown = [finding for finding in diagnosis.findings if everything or finding.status is not Status.OK]
    for hosts, finding in _merged(shown):
        console.print()
        mark = Text(f"{finding.status.value:<6}", style=_STYLES[finding.status])
        console.print(Text.assemble(mark, plain_text(f"{finding.check} on {', '.join(hosts)}: {finding.message}")))
        if finding.remedy:
            console.print(Padding(Text(plain_text(f"remedy: {finding.remedy}")), (0, 0, 0, 6), expand=False))
    if diagnosis.links:
        console.print()
        _show_links(diagnosis, console)
    console.print()
    counted = Counter(finding.status for finding in diagnosis.findings)
    console.print(Text(", ".join(f"{counted[status]} {status.value}" for status in Status), _STYLES[diagnosis.worst]))


def _merged(findings: Iterable[Finding]) -> list[tuple[list[str], Finding]]:
    """Return findings that are the same on several hosts once, the worst last, where one looks first."""
    hosts: dict[tuple[str, Status, str, str], list[str]] = {}
    first: dict[tuple[str, Status, str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.status, finding.message, finding.remedy)
        hosts.setdefault(key, []).append(finding.host)
        first.setdefault(key, finding)
    order = list(Status)
    return [(hosts[key], first[key]) for key in sorted(first, key=lambda key: order.index(key[1]))]


def _machines(diagnosis: Diagnosis, width: int) -> Any:
    order = list(Status)
    worst: dict[str, Status] = {}
    for finding in diagnosis.findings:
        worst[finding.host] = max(worst.get(finding.host, Status.OK), finding.status, key=order.index)
    visits = diagnosis.examination.visits
    columns = {
        "Host": [visit.name for visit in visits],
        "": [worst.get(visit.name, Status.OK).value for visit in visits],
        "Python": _column(visits, "python"),
        "TensorFlow": _versions(visits, "tensorflow"),
        "Keras": _versions(visits, "keras"),
        **{carrier.title: _versions(visits, carrier.name) for carrier in carriers.optional()},
        "Compiler": _column(visits, "compiler", "-"),
        "AutoDist": _versions(visits, "autodist"),
        "Cores": [f"{v.facts.cores:g}" if v.facts else "" for v in visits],
        "Memory GB": [f"{v.facts.memory_bytes / 1e9:.0f}" if v.facts else "" for v in visits],
        "GPUs": [str(len(v.facts.gpus)) if v.facts else "" for v in visits],
        "Disk GB": [f"{v.facts.disks['directory'].free_bytes / 1e9:.0f}" if v.facts else "" for v in visits],
        "Clock ms": [f"{v.clock_ahead_s * 1e3:+.0f}" if v.facts else "" for v in visits],
    }
    for header in (*_DISPENSABLE, *(carrier.title for carrier in carriers.optional())):
        if sum(max(map(len, [header, *cells])) + 2 for header, cells in columns.items()) > width:
            del columns[header]
    return fitted_table(columns, width, right=_NUMBERS, shrink={"Host": 12})


def _column(visits: Sequence[MachineVisit], name: str, missing: str = "") -> list[str]:
    return [str(getattr(visit.facts, name)) or missing if visit.facts else "" for visit in visits]


def _versions(visits: Sequence[MachineVisit], package: str) -> list[str]:
    return [visit.facts.packages.get(package, "-") if visit.facts else "" for visit in visits]


def _show_links(diagnosis: Diagnosis, console: Console) -> None:
    """Show a matrix with one row per sender; of many machines, the links as a list."""
    names = [visit.name for visit in diagnosis.examination.visits if visit.facts is not None]
    if len(names) > _MOST_IN_MATRIX:
        console.print(_link_list(diagnosis.links, console.width))
        return
    rates, delays = {}, {}
    for link in diagnosis.links:
        rates[link.a, link.b], rates[link.b, link.a] = (_rate(link, link.there_gbps), _rate(link, link.back_gbps))
        delays[link.a, link.b] = delays[link.b, link.a] = "?" if link.error else f"{link.latency_ms:.3g}"
    for title, cells in (("Gbit/s from, to", rates), ("ms one way", delays)):
        if cells is delays:
            console.print()
        columns = {title: names} | {to: [cells.get((name, to), "-") for name in names] for to in names}
        console.print(fitted_table(columns, console.width, right=names, shrink={title: 12}))


def _link_list(links: Sequence[MeasuredLink], width: int) -> Any:
    columns = {
        "From": [link.a for link in links],
        "To": [link.b for link in links],
        "Gbit/s": [_rate(link, link.there_gbps) for link in links],
        "back": [_rate(link, link.back_gbps) for link in links],
        "ms": ["?" if link.error else f"{link.latency_ms:.3g}" for link in links],
    }
    return fitted_table(columns, width, right=("Gbit/s", "back", "ms"), shrink={"From": 12, "To": 12})


def _rate(link: MeasuredLink, gbps: float) -> str:
    return "?" if link.error else f"{gbps:.3g}"
