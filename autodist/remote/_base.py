"""The contract of a transport: a program on a machine, and the three streams to it."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from autodist.resource_spec import ResourceSpec, Ssh


@dataclass(frozen=True)
class Machine:
    """A machine that holds the workers of one or more hosts of a spec.

    Attributes:
        address: Host name or IP address.
        ssh: How to log in; None is as ``~/.ssh/config`` says.
        python: Path of its Python interpreter; None is that of the ``ssh`` group's virtual environment, or the
            launching one's.
        directory: Working directory of its workers; None is the launching one's.

    Example:
        >>> Machine("worker1").python is None
        True
    """

    address: str
    ssh: Ssh | None = None
    python: str | None = None
    directory: str | None = None

    def __str__(self) -> str:
        return self.address

    @property
    def interpreter(self) -> str:
        """The Python to start there: the one that is named, or that of the virtual environment, or this one's path."""
        if self.python is None and self.ssh is not None and self.ssh.python_venv is not None:
            return "python3"
        return self.python or sys.executable


def machines_of(spec: ResourceSpec) -> dict[Machine, tuple[int, ...]]:
    """Return the machines of a spec, each with the ranks of its workers; in the order of the first ranks.

    Two hosts are on one machine if they have the same address and are logged in to in the same way: behind one address
    with two ports of sshd there are two machines. Python and working directory are those of the first of its hosts.

    Example:
        >>> spec = ResourceSpec.from_yaml("nodes: [{address: a, workers: 2}, {address: b}]")
        >>> {machine.address: ranks for machine, ranks in machines_of(spec).items()}
        {'a': (0, 1), 'b': (2,)}
    """
    ranks: dict[tuple[str, Ssh | None], list[int]] = {}
    for rank, host in enumerate(spec.hosts):
        ranks.setdefault((host.address, host.ssh), []).append(rank)
    firsts = {place: spec.hosts[found[0]] for place, found in ranks.items()}
    return {
        Machine(host.address, host.ssh, host.python, host.directory): tuple(ranks[place])
        for place, host in firsts.items()
    }


class Channel(ABC):
    """The streams of one program on a machine, and its end.

    All methods are for the event loop that opened it. Neither reading waits for writing nor the other way round. What
    breaks the connection shows as the end of the streams, never as an exception of ``read``.
    """

    @abstractmethod
    async def read(self, most_bytes: int = 65536) -> bytes:
        """Return what the program has written to standard output, at least one byte; ``b""`` at the end of it."""

    @abstractmethod
    async def read_error(self, most_bytes: int = 65536) -> bytes:
        """Return what the program, or the one that reaches it, has written to standard error; ``b""`` at its end."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Hand bytes over to be sent to standard input; never blocks, never fails. Follow it with ``drain``."""

    @abstractmethod
    async def drain(self) -> None:
        """Wait until there is room for more; returns at once if the connection is broken."""

    @abstractmethod
    async def wait(self) -> int | None:
        """Wait for the program's end and return its exit code, minus the signal's number if one ended it.

        None if it can't be known: the connection broke.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the streams and end what this machine has started for the connection; within seconds, never fails.

        The program on the other side is not waited for: it notices the end of its standard input.
        """


class Transport(ABC):
    """A way to reach machines; one object serves all machines of a run, and many channels at once."""

    @abstractmethod
    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program on a machine.

        Args:
            machine: Where.
            argv: Program and arguments, passed on as they are: no shell may read them again.
            timeout_s: Longest time until it is started, > 0.

        Raises:
            HostUnreachable: The machine can't be reached or the program can't be started; with a hint.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections; within seconds, never fails."""
