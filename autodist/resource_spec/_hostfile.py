"""Hostfiles of Open MPI, MPICH, DeepSpeed, Horovod and PBS."""

from __future__ import annotations

import re
from pathlib import Path

from autodist.errors import SpecError
from autodist.resource_spec._detect import default_kind
from autodist.resource_spec._entries import DeviceKind, Entry, Mistakes, parse_device_count, parse_entry, spec_of
from autodist.resource_spec._model import ResourceSpec

_COUNTS: dict[str, DeviceKind | None] = {"slots": None, "gpus": "GPU", "cpus": "CPU"}
_IGNORED = {"max_slots"}


def read_hostfile(path: str | Path, kind: DeviceKind | None = None) -> ResourceSpec:
    """Return the cluster of a hostfile; see :func:`parse_hostfile`.

    Raises:
        SpecError: The file can't be read, or has mistakes.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"the hostfile `{path}` can't be read: {reason}") from error
    return parse_hostfile(text, kind, str(path))


def parse_hostfile(text: str, kind: DeviceKind | None = None, source: str = "<hostfile>") -> ResourceSpec:
    r"""Return the cluster of a hostfile's text: one worker process on each host, with this many devices.

    A line is ``host``, ``host slots=2`` or ``host:2``; the host may be a range. ``gpus=2`` or ``cpus=2`` instead of
    ``slots=2`` says what is counted. What follows ``#`` is a comment, ``max_slots`` says nothing here. A host that
    appears again has the devices of all its lines, as PBS means it.

    Args:
        text: The file's content.
        kind: What ``slots`` and bare numbers count. None: GPUs if this machine has one, else CPU devices.
        source: What messages call it.

    Raises:
        SpecError: The text has mistakes, all of which are listed with their lines.

    Example:
        >>> spec = parse_hostfile("a slots=2  # the chief\nb:1\n", kind="GPU")
        >>> [(host.name, host.gpus) for host in spec.hosts]
        [('a', (0, 1)), ('b', (0,))]
    """
    mistakes = Mistakes(source, hint="a line is `host`, `host slots=2`, `host gpus=2` or `host:2`")
    entries = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        where = f"{source}:{number}: "
        try:
            entries += _entries(line.partition("#")[0], where)
        except SpecError as error:
            mistakes.add(where + error.message)
    if not entries:
        mistakes.add("the file names no host")
    return spec_of(entries, kind or default_kind(), mistakes, adds=True)


def _entries(line: str, where: str) -> list[Entry]:
    """Return the entry of a line, if it has one."""
    words = re.sub(r"\s*=\s*", "=", line).split()
    if not words:
        return []
    entry = parse_entry(words[0], where)
    counts: list[Entry] = []
    for word in words[1:]:
        key, equals, number = word.partition("=")
        name = key.lower().replace("-", "_")
        if not equals or name not in {*_COUNTS, *_IGNORED}:
            raise SpecError(f"`{word}` is unknown, expected `slots=N`, `gpus=N` or `cpus=N`")
        if name in _COUNTS:
            counts.append(Entry(entry.addresses, parse_device_count(number, f"`{key}`"), _COUNTS[name], where))
    if len(counts) + (entry.count is not None) > 1:
        raise SpecError(f"`{words[0]}` has several numbers of devices, one is expected")
    return counts or [entry]
