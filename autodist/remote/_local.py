"""This machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autodist.errors import HostUnreachable
from autodist.remote._base import Channel, Machine, Transport
from autodist.remote._subprocess import open_subprocess


class LocalTransport(Transport):
    """Runs programs as child processes, whatever the machine's address is.

    Args:
        env: Their whole environment; None is that of this process.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = None if env is None else dict(env)

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program here.

        Raises:
            HostUnreachable: It can't be started.
        """
        try:
            return await open_subprocess(argv, self._env, is_road=False)
        except OSError as error:
            raise HostUnreachable(
                f"`{argv[0]}` can't be started on `{machine.address}`: {error.strerror or error}",
                hint="check `python` of this host in the resource spec",
                address=machine.address,
            ) from error

    async def close(self) -> None:
        """Nothing is open besides the channels."""
