"""Reaching a machine and running a program there, whatever the way to reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autodist.remote._base import Channel, Machine, Transport, machines_of
from autodist.remote._local import LocalTransport
from autodist.remote._openssh import OpensshTransport
from autodist.remote._srun import SrunTransport, default_transport
from autodist.remote._subprocess import SubprocessChannel, open_subprocess

if TYPE_CHECKING:
    from autodist.remote._asyncssh import AsyncsshTransport

__all__ = [
    "AsyncsshTransport",
    "Channel",
    "LocalTransport",
    "Machine",
    "OpensshTransport",
    "SrunTransport",
    "SubprocessChannel",
    "Transport",
    "default_transport",
    "machines_of",
    "open_subprocess",
]


def __getattr__(name: str) -> Any:
    # asyncssh, and the cryptography that it needs, are imported only for other machines.
    if name == "AsyncsshTransport":
        from autodist.remote._asyncssh import AsyncsshTransport

        return AsyncsshTransport
    raise AttributeError(f"module 'autodist.remote' has no attribute {name!r}")
