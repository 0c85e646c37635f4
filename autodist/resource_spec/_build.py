"""From the sections of a file, each valid by itself, to hosts and links; notes the mistakes between sections."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from autodist.documents import Document, Path, key_path
from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import DEFAULT_BANDWIDTH_GBPS, DEFAULT_LATENCY_MS, Host, Link, Ssh
from autodist.resource_spec._ranges import MAX_HOSTS, expand_host_range
from autodist.resource_spec._schema import Defaults, LinkSection, Node, SshGroup
from autodist.resource_spec._value_checks import did_you_mean, is_loopback, share_out

_MOST_LINKS = 1_000_000

Nodes: TypeAlias = Mapping[int, Node]
Settings: TypeAlias = Mapping[int, dict[str, Any]]
Groups: TypeAlias = Mapping[str, "SshGroup | None"]


def build(
    document: Document,
    *,
    nodes: Sequence[Node | None],
    defaults: Defaults,
    groups: Groups,
    links: Sequence[LinkSection | None],
) -> tuple[tuple[Host, ...], tuple[Link, ...]]:
    """Return hosts and links; ``None`` is a section that can't be read, which has been noted.

    Raises:
        SpecError: The document has mistakes, found here or before.
    """
    readable = {index: node for index, node in enumerate(nodes) if node is not None}
    settings = {index: node.over(defaults) for index, node in readable.items()}
    _check_sizes(document, settings)
    _check_chiefs(document, readable)
    _check_addresses(document, readable)
    _check_bandwidths(document, readable, defaults)
    _check_groups(document, readable, defaults, groups)
    _check_gpus(document, settings)
    hosts = {host.name: host for host in _hosts(settings, _share_gpus(document, settings), groups)}
    # A node that can't be read may be the one that a link names.
    known = hosts if len(readable) == len(nodes) else None
    joined = list(_links(document, {index: link for index, link in enumerate(links) if link is not None}, known))
    document.check()
    return tuple(hosts.values()), tuple(joined)


def _check_sizes(document: Document, settings: Settings) -> None:
    count = sum(len(expand_host_range(node["address"])) * node["workers"] for node in settings.values())
    if count > MAX_HOSTS:
        document.add(("nodes",), f"`nodes` has {count:,} workers, at most {MAX_HOSTS:,} are allowed")
        document.check()


def _check_chiefs(document: Document, nodes: Nodes) -> None:
    chiefs = [index for index, node in nodes.items() if node.chief]
    for index in chiefs:
        address = nodes[index].address
        if len(expand_host_range(address)) > 1:
            text = f"`nodes[{index}].chief` marks every host of `{address}`, only one can be the chief"
            document.add(("nodes", index, "chief"), text)
    for index in chiefs[1:]:
        line = document.position(("nodes", chiefs[0], "chief")).line
        text = f"`nodes[{index}].chief` marks a second chief, the first is in line {line}, only one is allowed"
        document.add(("nodes", index, "chief"), text)


def _check_addresses(document: Document, nodes: Nodes) -> None:
    remote = [node.address for node in nodes.values() if not _is_here(node.address)]
    first: dict[str, int] = {}
    for index, node in nodes.items():
        path = ("nodes", index, "address")
        if _is_here(node.address):
            if remote:
                remedy = f"`{remote[0]}` can't reach it, give this machine's own name or address"
                document.add(path, f"`nodes[{index}].address` is the loopback address `{node.address}`: {remedy}")
            continue
        addresses = expand_host_range(node.address)
        twice = [address for address in addresses if first.setdefault(address.lower(), index) != index]
        if twice:
            line = document.position(("nodes", first[twice[0].lower()], "address")).line
            remedy = "for several workers on a host give it `workers`"
            document.add(path, f"`nodes[{index}].address` has `{twice[0]}` again, first in line {line}; {remedy}")


def _is_here(address: str) -> bool:
    return any(is_loopback(host) for host in expand_host_range(address))


def _check_bandwidths(document: Document, nodes: Nodes, defaults: Defaults) -> None:
    for path, section in _sections(nodes, defaults):
        if {"bandwidth_gbps", "network_bandwidth"} <= section.model_fields_set:
            text = "`network_bandwidth` and `bandwidth_gbps` are the same setting, give one of them"
            document.add((*path, "network_bandwidth"), text, at_key=True)


def _check_groups(document: Document, nodes: Nodes, defaults: Defaults, groups: Groups) -> None:
    for path, section in _sections(nodes, defaults):
        name = section.ssh_config
        if name is not None and name not in groups:
            where = (*path, "ssh_config")
            rest = did_you_mean(name, groups) if groups else ", there is no group in `ssh`"
            document.add(where, f"`{key_path(where)}` names the unknown group `{name}`{rest}")


def _sections(nodes: Nodes, defaults: Defaults) -> Iterator[tuple[Path, Defaults]]:
    yield ("defaults",), defaults
    for index, node in nodes.items():
        yield ("nodes", index), node


def _share_gpus(document: Document, settings: Settings) -> dict[int, list[tuple[int, ...]]]:
    shares = {}
    for index, node in settings.items():
        try:
            shares[index] = share_out(node["gpus"], node["workers"])
        except SpecError as error:
            document.add(("nodes", index, "gpus"), f"`nodes[{index}].gpus`: {error.message}")
            shares[index] = [()] * node["workers"]
    return shares


def _check_gpus(document: Document, settings: Settings) -> None:
    """Note GPUs of this machine that several nodes have; elsewhere an address has one node."""
    first: dict[int, int] = {}
    for index, node in settings.items():
        gpus = node["gpus"] if _is_here(node["address"]) else ()
        for gpu in gpus:
            if first.setdefault(gpu, index) != index:
                line = document.position(("nodes", first[gpu], "gpus")).line
                text = f"`nodes[{index}].gpus` has GPU {gpu} of this machine again, first in line {line}"
                document.add(("nodes", index, "gpus"), text)


def _hosts(settings: Settings, shares: Mapping[int, list[tuple[int, ...]]], groups: Groups) -> Iterator[Host]:
    on_address: Counter[str] = Counter()
    for index, node in settings.items():
        ssh = _ssh(groups.get(node["ssh_config"]))
        for address, (worker, gpus) in itertools.product(expand_host_range(node["address"]), enumerate(shares[index])):
            number = on_address[address]
            on_address[address] += 1
            yield Host(
                name=f"{address}#{number}" if number else address,
                address=address,
                chief=node["chief"] and worker == 0,
                cpus=node["cpus"],
                gpus=gpus,
                bandwidth_gbps=node["bandwidth_gbps"],
                memory_gb=node["memory_gb"],
                python=node["python"],
                directory=node["directory"],
                env=tuple(node["env"].items()),
                ssh=ssh,
                price_per_hour=node["price_per_hour"],
                cores_shared_by=node["cores_shared_by"],
                burst_kb=node["burst_kb"],
            )


def _ssh(group: SshGroup | None) -> Ssh | None:
    if group is None:
        return None
    return Ssh(
        username=group.username or None,
        port=group.port,
        key_file=group.key_file or None,
        python_venv=group.python_venv or None,
        shared_envs=tuple(group.shared_envs.items()),
    )


def _links(document: Document, links: Mapping[int, LinkSection], hosts: Mapping[str, Host] | None) -> Iterator[Link]:
    """Yield the links; without ``hosts``, it is not checked whether they name known ones."""
    first: dict[frozenset[str], int] = {}
    for index, link in links.items():
        path = ("links", index, "between")
        try:
            pairs = _pairs(link, hosts)
            _check_pairs(document, pairs, first, index)
        except SpecError as error:
            document.add(path, f"`links[{index}].between` {error.message}")
            continue
        if not {"bandwidth_gbps", "latency_ms"} & link.model_fields_set:
            document.add(path[:2], f"`links[{index}]` needs `bandwidth_gbps` or `latency_ms`")
        latency_ms = DEFAULT_LATENCY_MS if link.latency_ms is None else link.latency_ms
        yield from (Link(a, b, link.bandwidth_gbps or _bandwidth((a, b), hosts), latency_ms) for a, b in pairs)


def _pairs(link: LinkSection, hosts: Mapping[str, Host] | None) -> list[tuple[str, str]]:
    """Return the pairs of hosts; a range with itself means every pair in it."""
    ends = expand_host_range(link.between[0]), expand_host_range(link.between[1])
    unknown = dict.fromkeys(name for name in itertools.chain(*ends) if hosts is not None and name not in hosts)
    if hosts is not None and unknown:
        names = ", ".join(f"`{name}`" for name in itertools.islice(unknown, 3))
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        raise SpecError(f"names unknown hosts: {names}{more}{did_you_mean(next(iter(unknown)), hosts)}")
    if len(ends[0]) * len(ends[1]) > _MOST_LINKS:
        raise SpecError(f"means more than {_MOST_LINKS:,} links")
    if ends[0] == ends[1] and len(ends[0]) > 1:
        return list(itertools.combinations(ends[0], 2))
    return list(itertools.product(*ends))


def _check_pairs(
    document: Document, pairs: list[tuple[str, str]], first: dict[frozenset[str], int], index: int
) -> None:
    for a, b in pairs:
        if a == b:
            raise SpecError(f"joins `{a}` with itself, it needs two different hosts")
        earlier = first.setdefault(frozenset((a, b)), index)
        if earlier != index:
            line = document.position(("links", earlier)).line
            raise SpecError(f"joins `{a}` and `{b}` again, first in line {line}")


def _bandwidth(pair: tuple[str, str], hosts: Mapping[str, Host] | None) -> float:
    return min(hosts[name].bandwidth_gbps for name in pair) if hosts else DEFAULT_BANDWIDTH_GBPS
