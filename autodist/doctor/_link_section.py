"""Measured links, written into the section ``links`` of a spec file; the rest of its text stays as it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from autodist.doctor._examination import MachineVisit
from autodist.doctor._probe_pairs import MeasuredLink
from autodist.documents import yaml_number, yaml_text
from autodist.errors import SpecError
from autodist.resource_spec import Link, ResourceSpec

_SECTION = "links"


def write_links(path: str | Path, visits: Sequence[MachineVisit], measured: Iterable[MeasuredLink]) -> int:
    """Write measured links into a spec file and return the number of links between hosts that were written.

    Links between hosts that were not measured stay. Comments inside the section are lost, all else is kept to the byte.
    The file is replaced at once, and only if it then says what it should.

    Args:
        path: The YAML file that the cluster was read from.
        visits: The machines with the hosts that are on them.
        measured: The links; those with errors are left out.

    Raises:
        SpecError: The file can't be read or written, or can't be edited as text.
    """
    path = Path(path)
    if path.suffix == ".json":
        raise SpecError(
            f"links can't be written into `{path}`, only into a YAML file", hint="give `--spec` a YAML file"
        )
    before = ResourceSpec.from_file(path)
    links = links_of(visits, measured)
    if not links:
        return 0
    new = {frozenset((link.a, link.b)) for link in links}
    kept = tuple(link for link in before.links if frozenset((link.a, link.b)) not in new)
    wanted = replace(before, links=kept + links)
    text = edited(_read(path), wanted.links, str(path))
    if ResourceSpec.from_yaml(text, str(path)) != wanted:
        raise _not_editable(path.name, wanted.links)
    _replace(path, text)
    return len(links)


def links_of(visits: Sequence[MachineVisit], measured: Iterable[MeasuredLink]) -> tuple[Link, ...]:
    """Return a link for each pair of hosts on two machines; a worker's share of a machine's network is not known."""
    hosts = {visit.name: visit.hosts for visit in visits}
    return tuple(
        Link(a.name, b.name, _three_digits(link.bandwidth_gbps), _three_digits(link.latency_ms))
        for link in measured
        if not link.error and link.bandwidth_gbps > 0
        for a in hosts[link.a]
        for b in hosts[link.b]
    )


def edited(text: str, links: Iterable[Link], source: str) -> str:
    """Return a spec's text with other links.

    Raises:
        SpecError: The document is not written in lines, one per section.
    """
    section = _section(links)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style or root.start_mark.column != 0:
        raise _not_editable(source, links)
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    section = section.replace("\n", newline)
    for key, value in root.value:
        if key.value == _SECTION:
            first, last = key.start_mark.line, _last_line(value)
            return "".join([*lines[:first], section, *lines[last + 1 :]])
    end = _last_line(root) + 1
    head = "".join(lines[:end])
    gap = newline if head.endswith(("\n", "\r")) else newline * 2
    return head + gap + section + "".join(lines[end:])


def _section(links: Iterable[Link]) -> str:
    rows = (
        f"  - {{between: [{yaml_text(link.a)}, {yaml_text(link.b)}], "
        f"bandwidth_gbps: {yaml_number(link.bandwidth_gbps)}, latency_ms: {yaml_number(link.latency_ms)}}}\n"
        for link in links
    )
    return "".join([f"{_SECTION}:  # measured by `autodist doctor --probe --write-links`\n", *rows])


def _last_line(node: yaml.Node) -> int:
    """Return the last line with content of a node; PyYAML's own end of a block is behind the comments that follow."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", True):
        end = node.end_mark
        return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)
    children = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
    return max([int(node.start_mark.line), *map(_last_line, children)])


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise SpecError(f"the resource spec `{path}` can't be read: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    """Write a file so that at any time either the old or the new one exists, also through a symbolic link."""
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, target.stat().st_mode & 0o7777)
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise SpecError(f"the resource spec `{path}` can't be written: {error.strerror}") from error


def _not_editable(source: str, links: Iterable[Link]) -> SpecError:
    return SpecError(
        f"the links can't be written into `{source}`, it is not written in lines with one section each",
        hint=f"paste this into it:\n{_section(links)}",
    )
