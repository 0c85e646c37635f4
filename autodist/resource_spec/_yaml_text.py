"""The lines of a spec file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autodist.documents import yaml_number, yaml_text
from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import DEFAULT_BANDWIDTH_GBPS, Host, Link, Ssh
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._value_checks import share_out

_WIDTH = 100


def write(spec: ResourceSpec, header: str, notes: Mapping[str, str]) -> str:
    """Return the text; see :func:`autodist.resource_spec.to_yaml`."""
    groups = list(dict.fromkeys(host.ssh for host in spec.hosts if host.ssh is not None))
    logins = {group: "login" if len(groups) == 1 else f"login{number}" for number, group in enumerate(groups, 1)}
    lines = [*_comment(header, ""), "version: 1", "nodes:"]
    for hosts in _nodes(spec.hosts):
        lines += [*_comment(notes.get(hosts[0].name, ""), "  "), *_node(hosts, logins)]
    if logins:
        lines += ["ssh:", *(line for group, name in logins.items() for line in _group(name, group))]
    if spec.links:
        lines += ["links:", *map(_link, spec.links)]
    text = "\n".join([*lines, ""])
    if ResourceSpec.from_yaml(text) != spec:
        named = [host for host in spec.hosts if host.name.partition("#")[0] != host.address]
        if named:
            raise SpecError(
                f"a file calls hosts by their addresses, `{named[0].name}` has the address `{named[0].address}`",
                hint="give names as addresses if the hosts can be reached by these, else addresses as names",
            )
        raise SpecError("the workers of one address differ, a file can't say that", hint="give each its own address")
    return text


def _comment(text: str, indent: str) -> list[str]:
    """Return the lines of a comment; lines that are indented are left as they are."""
    lines: list[str] = []
    for line in text.splitlines():
        shown = "".join(character if character.isprintable() else "?" for character in line)
        lines += [shown] if shown.startswith(" ") else textwrap.wrap(shown, _WIDTH) or [""]
    return [f"{indent}# {line}".rstrip() for line in lines]


def _nodes(hosts: Sequence[Host]) -> Iterator[list[Host]]:
    """Yield the hosts that one node means: neighbours on an address that differ in their GPUs only."""
    found: list[Host] = []
    for host in hosts:
        if found and not _are_one_node(found[0], host):
            yield found
            found = []
        found.append(host)
    yield found


def _are_one_node(first: Host, other: Host) -> bool:
    return replace(other, name=first.name, gpus=first.gpus, chief=first.chief) == first


def _node(hosts: Sequence[Host], logins: Mapping[Ssh, str]) -> Iterator[str]:
    first = hosts[0]
    yield f"  - address: {yaml_text(first.address)}"
    yield from (f"    {key}: {value}" for key, value in _settings(hosts, logins) if value is not None)
    if first.env:
        yield "    env:"
        yield from (f"      {yaml_text(name)}: {yaml_text(value)}" for name, value in first.env)


def _settings(hosts: Sequence[Host], logins: Mapping[Ssh, str]) -> Iterator[tuple[str, str | None]]:
    first = hosts[0]
    bandwidth_gbps = None if first.bandwidth_gbps == DEFAULT_BANDWIDTH_GBPS else first.bandwidth_gbps
    yield "chief", "true" if first.chief else None
    yield "workers", str(len(hosts)) if len(hosts) > 1 else None
    yield "cpus", str(first.cpus) if first.cpus > 1 else None
    yield "gpus", _gpus(hosts)
    yield "bandwidth_gbps", None if bandwidth_gbps is None else yaml_number(bandwidth_gbps)
    yield "memory_gb", None if first.memory_gb is None else yaml_number(first.memory_gb)
    yield "price_per_hour", None if first.price_per_hour is None else yaml_number(first.price_per_hour)
    yield "cores_shared_by", None if first.cores_shared_by == 1 else str(first.cores_shared_by)
    yield "burst_kb", None if first.burst_kb == 0 else yaml_number(first.burst_kb)
    yield "python", None if first.python is None else yaml_text(first.python)
    yield "directory", None if first.directory is None else yaml_text(first.directory)
    yield "ssh_config", None if first.ssh is None else logins[first.ssh]


def _gpus(hosts: Sequence[Host]) -> str | None:
    every = tuple(gpu for host in hosts for gpu in host.gpus)
    try:
        is_shared_out = [host.gpus for host in hosts] == share_out(every, len(hosts))
    except SpecError:
        is_shared_out = False
    if not every or not is_shared_out:
        return None
    return str(len(every)) if every == tuple(range(len(every))) else f"[{', '.join(map(str, every))}]"


def _group(name: str, ssh: Ssh) -> Iterator[str]:
    texts = {"username": ssh.username, "key_file": ssh.key_file, "python_venv": ssh.python_venv}
    yield f"  {name}:"
    yield from (f"    {key}: {yaml_text(value)}" for key, value in texts.items() if value is not None)
    yield f"    port: {ssh.port}"
    if ssh.shared_envs:
        yield "    shared_envs:"
        yield from (f"      {yaml_text(key)}: {yaml_text(value)}" for key, value in ssh.shared_envs)


def _link(link: Link) -> str:
    between = f"[{yaml_text(link.a)}, {yaml_text(link.b)}]"
    bandwidth, latency = yaml_number(link.bandwidth_gbps), yaml_number(link.latency_ms)
    return f"  - {{between: {between}, bandwidth_gbps: {bandwidth}, latency_ms: {latency}}}"
