"""The addresses of this machine, and what names mean here; runs on the machine."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

__all__ = ["interfaces", "meanings", "reached_by"]

_SIOCGIFCONF = 0x8912
_IFREQ_BYTES = 40
_MOST_ADDRESSES = 256
_DISCARD = 9  # a port that nothing is sent to


def interfaces() -> dict[str, list[str]]:
    """Return this machine's addresses by network interface, IPv4 first."""
    found: dict[str, list[str]] = {}
    for name, address in (*_ipv4(), *_ipv6()):
        found.setdefault(name, []).append(address)
    return found


def meanings(names: Sequence[str], timeout_s: float) -> dict[str, list[str]]:
    """Return the addresses that each name has here, IPv4 first; none for one that is not known or not found in time."""
    found: dict[str, list[str]] = {name: [] for name in names}

    def ask(name: str) -> None:
        found[name] = _addresses_of(name)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in found]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def reached_by(name: str, others: Sequence[str]) -> tuple[str, str]:
    """Return the address of this machine under which others reach it, and its interface; both empty if it has none.

    It is what its name means here if that is an address of an interface. Often it is not: Debian writes 127.0.1.1 for
    the machine's own name into ``/etc/hosts``, and an alias of ``~/.ssh/config`` means something on the launching
    machine only. Then it is the address from which this machine would talk to the others.

    Args:
        name: What the spec calls this machine.
        others: What it calls the other machines.
    """
    own = {ip: interface for interface, ips in interfaces().items() for ip in ips if not _is_loopback(ip)}
    candidates = (*_addresses_of(name), *(_source(ip) for other in others for ip in _addresses_of(other)))
    return next(((ip, own[ip]) for ip in candidates if ip in own), ("", ""))


def _is_loopback(ip: str) -> bool:
    return ipaddress.ip_address(ip).is_loopback


def _addresses_of(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    ips = [str(entry[4][0]).partition("%")[0] for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]
    return list(dict.fromkeys(ips))


def _source(ip: str) -> str:
    """Return the address from which this machine would talk to another one; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect((ip, _DISCARD))
            return str(end.getsockname()[0])
    except OSError:
        return ""


def _ipv4() -> Iterator[tuple[str, str]]:
    room = array.array("B", bytes(_IFREQ_BYTES * _MOST_ADDRESSES))
    pointer, length = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        answer = fcntl.ioctl(end.fileno(), _SIOCGIFCONF, struct.pack("iL", length, pointer))
    filled, raw = struct.unpack("iL", answer)[0], room.tobytes()
    for start in range(0, filled, _IFREQ_BYTES):
        name = raw[start : start + 16].split(b"\0", 1)[0].decode(errors="replace")
        yield name.partition(":")[0], socket.inet_ntoa(raw[start + 20 : start + 24])


def _ipv6() -> Iterator[tuple[str, str]]:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for line in file:
                digits, *_, name = line.split()
                yield name, str(ipaddress.IPv6Address(int(digits, 16)))
    except OSError:
        return
