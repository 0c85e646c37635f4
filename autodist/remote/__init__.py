"""Reaching a machine and running a program there, whatever the road to it."""

from autodist.remote._base import Channel, Machine, Transport, machines_of
from autodist.remote._local import LocalTransport
from autodist.remote._subprocess import SubprocessChannel, open_subprocess

__all__ = ["Channel", "LocalTransport", "Machine", "SubprocessChannel", "Transport", "machines_of", "open_subprocess"]
