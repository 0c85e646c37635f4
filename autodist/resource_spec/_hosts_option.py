"""``a:2,b:2``, what ``-H`` takes here and in other launchers."""

from __future__ import annotations

import re

from autodist.errors import SpecError
from autodist.resource_spec._detect import default_kind
from autodist.resource_spec._entries import DeviceKind, Mistakes, parse_entry, spec_of
from autodist.resource_spec._model import ResourceSpec

# The comma after which as many brackets are open as are closed: not that of `worker[1,3]`.
_COMMA = re.compile(r",(?![^\[]*\])")


def parse_hosts(text: str, kind: DeviceKind | None = None) -> ResourceSpec:
    """Return the cluster of a list of hosts: one worker process on each, with this many devices that hold a replica.

    Args:
        text: Hosts separated by commas: ``a``, ``a:2``, ``a:gpus=2``, ``a:cpus=2``, ``[fe80::1]:2``. A host may be a
            range such as ``worker[1-4]``; without a number it has one device.
        kind: What a bare number counts. None: GPUs if this machine has one, else CPU devices.

    Raises:
        SpecError: The text has mistakes, all of which are listed.

    Example:
        >>> spec = parse_hosts("a:2,worker[1-2]:gpus=4", kind="CPU")
        >>> [(host.name, host.cpus, host.gpus) for host in spec.hosts]
        [('a', 2, ()), ('worker1', 1, (0, 1, 2, 3)), ('worker2', 1, (0, 1, 2, 3))]
    """
    mistakes = Mistakes(f"`--hosts {text}`", hint="write hosts like `a:2,b:2` or `worker[1-4]:gpus=2`")
    entries = []
    for part in split_hosts(text):
        try:
            entries.append(parse_entry(part))
        except SpecError as error:
            mistakes.add(error.message)
    return spec_of(entries, kind or default_kind(), mistakes)


def split_hosts(text: str) -> list[str]:
    """Return the parts between commas that are in no brackets.

    Example:
        >>> split_hosts("a[1,3]:2, b")
        ['a[1,3]:2', 'b']
    """
    return [part.strip() for part in _COMMA.split(text)]
