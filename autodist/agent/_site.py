"""What a machine is to a run: under which address others reach it, and which files it has already.

Runs on the machine itself, within the agent: the standard library only.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["expand", "has_files", "ping", "place"]

_SIOCGIFCONF = 0x8912
_IFREQ_BYTES = 40
_MOST_ADDRESSES = 256
_DISCARD = 9  # a port that nothing is sent to
_CHUNK_BYTES = 1 << 20


def ping() -> bool:
    """Answer."""
    return True


def place(address: str, others: Sequence[str]) -> dict[str, str]:
    """Find out under which of its own addresses the other machines reach this one.

    That is what its name in the resource spec means here, if it is an address of a network interface. Often it is not:
    Debian writes 127.0.1.1 for the machine's own name into ``/etc/hosts``, and an alias of ``~/.ssh/config`` means
    something on the launching machine only. Then it is the address from which this machine would talk to the others.

    Args:
        address: What the spec calls this machine.
        others: What it calls the other machines.

    Returns:
        ``address`` and the ``interface`` that has it; both empty if nothing was found.

    """
    own = {ip: name for ip, name in _own_addresses() if not ipaddress.ip_address(ip).is_loopback}
    for candidate in (*_meanings(address), *_sources(others)):
        if candidate in own:
            return {"address": candidate, "interface": own[candidate]}
    return {"address": "", "interface": ""}


def has_files(root: str, digests: Mapping[str, str]) -> bool:
    """Whether all these files are there with this content: SHA-256 by path below the root."""
    return all(_digest(os.path.join(root, path)) == digest for path, digest in digests.items())


def expand(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with ``$NAME`` replaced by this machine's variables, as its shell would do it."""
    return {name: os.path.expandvars(text) for name, text in texts.items()}


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            whole = hashlib.sha256()
            while piece := file.read(_CHUNK_BYTES):
                whole.update(piece)
            return whole.hexdigest()
    except OSError:
        return ""


def _own_addresses() -> Iterator[tuple[str, str]]:
    """Yield this machine's addresses with their interfaces, IPv4 first."""
    names = array.array("B", bytes(_IFREQ_BYTES * _MOST_ADDRESSES))
    pointer, length = names.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        answer = fcntl.ioctl(end.fileno(), _SIOCGIFCONF, struct.pack("iL", length, pointer))
    filled, raw = struct.unpack("iL", answer)[0], names.tobytes()
    for start in range(0, filled, _IFREQ_BYTES):
        name = raw[start : start + 16].split(b"\0", 1)[0].decode(errors="replace")
        yield socket.inet_ntoa(raw[start + 20 : start + 24]), name.partition(":")[0]
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for line in file:
                digits, *_, name = line.split()
                yield str(ipaddress.IPv6Address(int(digits, 16))), name
    except OSError:
        return


def _meanings(address: str) -> list[str]:
    """Return the addresses that a name has on this machine, IPv4 first."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    ips = [str(entry[4][0]).partition("%")[0] for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]
    return list(dict.fromkeys(ips))


def _sources(others: Sequence[str]) -> Iterator[str]:
    """Yield the addresses from which this machine would talk to others; nothing is sent."""
    for ip in (meaning for other in others for meaning in _meanings(other)):
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as end:
                end.connect((ip, _DISCARD))
                yield str(end.getsockname()[0])
        except OSError:
            continue
