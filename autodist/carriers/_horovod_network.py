"""Finds out where Horovod's workers will listen, and whether others can reach them there.

Horovod uses the given network interface (``HOROVOD_GLOO_IFACE``) for its first connections only. For those that carry
gradients it listens at the address to which the machine resolves its own name, and Debian writes 127.0.1.1 for that
into ``/etc/hosts``. Horovod would then abort the process, so the problem is reported before. A stranger that connects
there would take a worker's place, so strangers are ignored.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autodist.carriers._base import Process
from autodist.errors import LaunchError
from autodist.installation import TENSORFLOW_ALONE
from autodist.transport import ips_of, source_towards

_LOG = logging.getLogger("autodist")
_KEY = "horovod/listens/"
_SOURCES = "horovod/connects from/"


@dataclass(frozen=True)
class Listener:
    """Where a worker's Horovod will listen.

    Attributes:
        node_rank: The number of its machine.
        name: The machine's own name.
        listens: The address to which the machine resolves that name; empty for none.
        address: The address under which the cluster reaches the machine.
    """

    node_rank: int
    name: str
    listens: str
    address: str


def check_listeners(process: Process) -> list[Listener]:
    """Check that the workers' Horovod can connect; all workers call this before they start it, and all agree.

    Returns:
        The address at which each will listen, by rank.

    Raises:
        LaunchError: They can't connect; names the machines to blame.
    """
    name = socket.gethostname()
    own = Listener(process.node_rank, name, _bound(name), process.address)
    every = [Listener(**one) for one in _told_by_all(process, _KEY, asdict(own))]
    if process.is_on_one_machine:
        return every
    to_blame = unreachable(every)
    if to_blame:
        raise _error(to_blame)
    if own.listens != own.address and not _is_loopback(own.listens):
        _LOG.warning(
            "Horovod's traffic goes over %s, which is what this machine's name `%s` means, not over `%s`",
            *(own.listens, own.name, own.address),
        )
    return every


def sources_of_others(process: Process, listeners: Sequence[Listener]) -> set[str]:
    """The addresses from which the other workers will connect to this one; all workers call this."""
    own: set[str] = set()
    for address in {address for one in listeners for address in (one.listens, one.address) if address}:
        with contextlib.suppress(OSError):  # the caller reports unreachable ones
            own.update(map(source_towards, ips_of(address)))
    every = _told_by_all(process, _SOURCES, sorted(own))
    return {address for rank, sources in enumerate(every) if rank != process.rank for address in sources}


def _told_by_all(process: Process, key: str, own: Any) -> list[Any]:
    """Every worker's value under a key, by rank."""
    process.put(f"{key}{process.rank}", json.dumps(own).encode())
    if process.rank == 0:
        every = [json.loads(process.get(f"{key}{rank}")) for rank in range(process.world_size)]
        process.put(f"{key}all", json.dumps(every).encode())
    return list(json.loads(process.get(f"{key}all")))


def unreachable(listeners: Sequence[Listener]) -> list[Listener]:
    """Return those that make a connection fail, one per machine: of two, the one with the larger address connects.

    Example:
        >>> debian = [Listener(0, "a", "127.0.1.1", "10.0.0.1"), Listener(1, "b", "127.0.1.1", "10.0.0.2")]
        >>> [listener.name for listener in unreachable(debian)]
        ['a', 'b']
        >>> unreachable([debian[0], Listener(1, "b", "10.0.0.2", "10.0.0.2")])
        []
    """
    machines = list({listener.node_rank: listener for listener in listeners}.values())
    nowhere = [one for one in machines if not one.listens]
    pairs = [(one, other) for one in machines for other in machines if one != other and one.listens and other.listens]
    cut_off = [one for one, other in pairs if _is_loopback(one.listens) and _order(one) <= _order(other)]
    return list(dict.fromkeys([*nowhere, *cut_off]))


def _order(listener: Listener) -> tuple[int, bytes]:
    ip = ipaddress.ip_address(listener.listens)
    return ip.version, ip.packed


def _is_loopback(ip: str) -> bool:
    return bool(ip) and ipaddress.ip_address(ip).is_loopback


def _bound(name: str) -> str:
    """Return the address that Horovod chooses for a name: the first that a socket can be bound to."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as end:
                end.bind(place)
                return str(place[0]).partition("%")[0]
        except OSError:
            continue
    return ""


def _error(blamed: Sequence[Listener]) -> LaunchError:
    rows = [f"  on `{one.name}`, which others reach at {one.address}: {one.listens or 'no address'}" for one in blamed]
    lines = ", ".join(f"`{one.address} {one.name}`" for one in blamed)
    return LaunchError(
        "\n".join(
            ["Horovod listens at the address that a machine's own name means there, where others can't reach it", *rows]
        ),
        hint=f"write {lines} into /etc/hosts of the machine, instead of what it says of that name; or do without "
        f"Horovod: {TENSORFLOW_ALONE}",
    )
