"""The ways to reach other machines, by the names that users give."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from autodist.errors import UsageError
from autodist.remote import Transport

TransportName: TypeAlias = Literal["asyncssh", "ssh", "srun"]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)


def make_transport(name: TransportName) -> Transport:
    """Return a way to reach other machines; what it needs is imported here.

    Raises:
        UsageError: There is none of this name.
    """
    from autodist import remote

    makers = {"asyncssh": "AsyncsshTransport", "ssh": "OpensshTransport", "srun": "SrunTransport"}
    if name not in makers:
        raise UsageError(f"`{name}` is not a transport, there are {', '.join(f'`{known}`' for known in TRANSPORTS)}")
    transport: Transport = getattr(remote, makers[name])()
    return transport
