"""Narrows ports that a library of this process listens on, from all addresses of the machine to one.

TensorFlow's servers listen on all addresses, whatever their cluster is called, and serve everybody who connects. They
can't be told otherwise; but a socket may be given a filter for the packets that reach it (``SO_ATTACH_FILTER``, see
socket(7)), which needs no privilege, and connections inherit the filter of the socket that they came by. Packets to
another address are dropped before they become a connection, as a firewall would.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import closing, suppress

__all__ = ["accept_only_at"]

_SO_ATTACH_FILTER = 26
_ACCEPT, _DROP = 0xFFFFFFFF, 0  # how much of the packet is let through
_IP_HEADER = 0x100000000 - 0x100000  # SKF_NET_OFF: where the kernel's filters see the start of the packet's IP header
# Instructions of classic BPF, see the kernel's Documentation/networking/filter.rst.
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06
_DESTINATION_AT = {4: 16, 6: 24}  # in the header of this version

_Instruction = tuple[int, int, int, int]  # what to do, how many to skip if true and if false, operand


def accept_only_at(address: str, port: int) -> None:
    """Have the sockets by which this process listens on a port accept connections to one of its addresses only.

    Connections to other addresses that were made before are closed. May be called again, for those that were about to
    be made in the meantime.

    Args:
        address: An IP address of this machine.
        port: Of sockets that listen already.

    Raises:
        OSError: The system has no such filters, or nothing listens on the port.
        ValueError: The address is no IP address of this machine.

    """
    ip = ipaddress.ip_address(address)
    _check_own(ip)
    narrowed = 0
    for candidate in _sockets(port):
        with closing(candidate):
            if candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                _attach(candidate, _program(ip))
                narrowed += 1
    if not narrowed:
        raise OSError(f"this process has no socket that listens on port {port}")
    _close_others(ip, port)


def _check_own(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    with socket.socket(socket.AF_INET if ip.version == 4 else socket.AF_INET6) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError as error:
            raise ValueError(f"`{ip}` is no address of this machine") from error


def _sockets(port: int) -> Iterator[socket.socket]:
    """All TCP sockets of this process with this port, as descriptors of our own."""
    for name in os.listdir("/proc/self/fd"):
        found = _socket(int(name))
        if found is None:
            continue
        if _is_tcp(found) and found.getsockname()[1] == port:
            yield found
        else:
            found.close()


def _socket(descriptor: int) -> socket.socket | None:
    """Return a duplicate of a descriptor if it is a socket's."""
    with suppress(OSError):  # closed meanwhile
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return socket.socket(fileno=os.dup(descriptor))
    return None


def _is_tcp(found: socket.socket) -> bool:
    return found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM


def _program(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[_Instruction]:
    """Accept packets whose destination is the address, drop all others."""
    words = struct.unpack(f"!{len(ip.packed) // 4}I", ip.packed)
    tests = [(_LOAD_BYTE, 0, 0, _IP_HEADER), (_SHIFT_RIGHT, 0, 0, 4), (_JUMP_IF_EQUAL, 0, 0, ip.version)]
    for index, word in enumerate(words):
        tests += [
            (_LOAD_WORD, 0, 0, _IP_HEADER + _DESTINATION_AT[ip.version] + 4 * index),
            (_JUMP_IF_EQUAL, 0, 0, word),
        ]
    end = len(tests) + 1  # behind the instruction that accepts
    jumps = [
        (code, 0, end - position - 1, operand) if code == _JUMP_IF_EQUAL else (code, 0, 0, operand)
        for position, (code, _, _, operand) in enumerate(tests)
    ]
    return [*jumps, (_RETURN, 0, 0, _ACCEPT), (_RETURN, 0, 0, _DROP)]


def _attach(listener: socket.socket, program: list[_Instruction]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    described = struct.pack("@HP", len(program), ctypes.addressof(code))  # struct sock_fprog
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _close_others(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> None:
    """Close connections that were made to other addresses before the filter was there."""
    for connection in _sockets(port):
        with closing(connection), suppress(OSError):  # not connected, or not any more
            connection.getpeername()
            local = ipaddress.ip_address(connection.getsockname()[0].partition("%")[0])
            if ip != (getattr(local, "ipv4_mapped", None) or local):
                connection.shutdown(socket.SHUT_RDWR)
