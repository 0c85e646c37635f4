"""The road to other machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from autodist.remote import Transport
    from autodist.resource_spec import ResourceSpec

__all__ = ["make_transport", "transport_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_CLASSES = {"asyncssh": "AsyncsshTransport", "ssh": "OpensshTransport", "srun": "SrunTransport"}


def transport_option(command: _Command) -> _Command:
    """Add ``--transport``."""
    return click.option(
        "--transport",
        type=click.Choice(list(_CLASSES)),
        help="How to reach other machines. Default: srun inside a Slurm job, else asyncssh.",
    )(command)


def make_transport(name: str | None, spec: ResourceSpec) -> Transport:
    """Return the road of this name, or the one that suits the cluster."""
    from autodist import remote

    transport: Transport = getattr(remote, _CLASSES[name or remote.default_transport(os.environ, spec)])()
    return transport
