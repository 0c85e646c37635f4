"""Reaching a machine and running a program there, whatever the road to it."""

from autodist.remote._base import Channel, Machine, Transport, machines_of
from autodist.remote._local import LocalTransport
from autodist.remote._srun import SrunTransport, default_transport
from autodist.remote._subprocess import SubprocessChannel, open_subprocess

__all__ = [
    "Channel",
    "LocalTransport",
    "Machine",
    "SrunTransport",
    "SubprocessChannel",
    "Transport",
    "default_transport",
    "machines_of",
    "open_subprocess",
]
