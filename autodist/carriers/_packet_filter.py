"""Sockets that hear only some machines: Linux drops what comes from others before a connection is made."""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection

_SO_ATTACH_FILTER = 26
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # see bpf(4)
_FROM_NETWORK_HEADER = 0x100000000 - 0x100000
_SOURCE_AT = {4: 12, 6: 8}
_ALL_BYTES = 0xFFFFFFFF

_Instruction = tuple[int, int, int, int]


def hear_only(descriptor: int, addresses: Collection[str]) -> None:
    """Let a bound socket, and the connections that it accepts, drop packets from all but some addresses.

    Args:
        descriptor: Descriptor of a socket that does not listen so far.
        addresses: IP addresses; those of another family than the socket's are left out.

    Raises:
        OSError: The system does not support it.
    """
    end = socket.socket(fileno=descriptor)
    try:
        version = 6 if end.family == socket.AF_INET6 else 4
        program = b"".join(struct.pack("=HBBI", *one) for one in _program(version, addresses))
        text = ctypes.create_string_buffer(program, len(program))
        size = len(program) // struct.calcsize("=HBBI")
        end.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", size, ctypes.addressof(text)))
    finally:
        end.detach()


def _program(version: int, addresses: Collection[str]) -> list[_Instruction]:
    """Instructions of a filter that accepts a packet if its source is one of some addresses.

    Example:
        >>> [hex(one[3]) for one in _program(4, ["10.0.0.1", "::1"])]
        ['0xfff0000c', '0xa000001', '0xffffffff', '0x0']
    """
    found: list[_Instruction] = []
    for ip in sorted({ip.packed for ip in map(ipaddress.ip_address, addresses) if ip.version == version}):
        words = struct.unpack(f"!{len(ip) // 4}I", ip)
        for number, word in enumerate(words):
            past = 2 * (len(words) - number) - 1  # to the code after this address
            found.append((_LOAD_WORD, 0, 0, _FROM_NETWORK_HEADER + _SOURCE_AT[version] + 4 * number))
            found.append((_JUMP_IF_EQUAL, 0, past, word))
        found.append((_RETURN, 0, 0, _ALL_BYTES))
    return [*found, (_RETURN, 0, 0, 0)]
