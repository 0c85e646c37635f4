"""Hosts as other launchers write them, one entry each, and the cluster that they make."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import Host
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._ranges import MAX_HOSTS, expand_host_range
from autodist.resource_spec._value_checks import is_address, is_loopback

DeviceKind: TypeAlias = Literal["CPU", "GPU"]

_MOST_DEVICES = 1024
_KINDS: dict[str, DeviceKind] = {"cpus": "CPU", "gpus": "GPU"}
_BRACKETED = re.compile(r"\[([0-9a-fA-F]*:[^\]]*)\](.*)", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """Hosts with one worker process each.

    Attributes:
        addresses: Those that one text means.
        count: Devices of each that hold a replica, >= 1; None: not said.
        kind: What they are; None: not said.
        where: Its place, as its mistakes begin: ``"hosts.txt:3: "``.
        memory_gb: Main memory of each, in GB (10^9 bytes); None: not known.
    """

    addresses: tuple[str, ...]
    count: int | None = None
    kind: DeviceKind | None = None
    where: str = ""
    memory_gb: float | None = None


class Mistakes:
    """The mistakes of one source, which are raised together."""

    def __init__(self, source: str, hint: str | None = None) -> None:
        self._source = source
        self._hint = hint
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Note one."""
        self._texts.append(text)

    def check(self) -> None:
        """Raise a SpecError with all of them, if there are any."""
        if len(self._texts) == 1:
            text = self._texts[0]
            alone = text if text.startswith(self._source) else f"{self._source}: {text}"
            raise SpecError(alone, hint=self._hint)
        if self._texts:
            lines = [f"{self._source} has {len(self._texts)} mistakes:", *self._texts]
            raise SpecError("\n  ".join(lines), hint=self._hint)


def parse_entry(text: str, where: str = "") -> Entry:
    """Return what ``host``, ``host:2``, ``host:gpus=2`` or ``[fe80::1]:2`` means; the host may be a range.

    Raises:
        SpecError: It is none of these.

    Example:
        >>> parse_entry("worker[1-2]:gpus=4")
        Entry(addresses=('worker1', 'worker2'), count=4, kind='GPU', where='', memory_gb=None)
    """
    bracketed = _BRACKETED.fullmatch(text)
    address, colon, given = (bracketed[1], bracketed[2][:1], bracketed[2][1:]) if bracketed else text.partition(":")
    if "@" in address:
        raise SpecError(f"`{text}` has a user name, which belongs into `~/.ssh/config`, or into `ssh` of a spec file")
    if colon not in ("", ":") or ":" in given:
        raise SpecError(f"`{text}` can't be read; an IPv6 address is written in brackets, as in `[fe80::1]:2`")
    addresses = expand_host_range(address)
    if not all(map(is_address, addresses)):
        raise SpecError(f"`{text}` has no host name, IP address or range such as `worker[1-4]`")
    if not colon:
        return Entry(addresses, where=where)
    key, equals, number = given.rpartition("=")
    if equals and key not in _KINDS:
        raise SpecError(f"`{text}` has `{key}`, expected `gpus` or `cpus`")
    return Entry(addresses, parse_device_count(number, f"`{text}`"), _KINDS.get(key), where)


def parse_device_count(text: str, what: str) -> int:
    """Return a number of devices.

    Raises:
        SpecError: It is not one; the message begins with ``what``.
    """
    if re.fullmatch("[0-9]{1,9}", text) is None or not 1 <= int(text) <= _MOST_DEVICES:
        raise SpecError(f"{what} has `{text}`, expected a number of devices from 1 to {_MOST_DEVICES}")
    return int(text)


def spec_of(entries: Iterable[Entry], kind: DeviceKind, mistakes: Mistakes, *, adds: bool = False) -> ResourceSpec:
    """Return the cluster of these entries; the first one is the chief.

    Args:
        entries: In the order of the ranks.
        kind: What a count is of, where an entry doesn't say.
        mistakes: Those found so far; those found here are added.
        adds: Whether counts of a host that appears again add up; else it is a mistake.

    Raises:
        SpecError: There are mistakes, or no host.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        for address in entry.addresses:
            one = replace(entry, addresses=(address,), kind=entry.kind or kind)
            earlier = found.setdefault(address.lower(), one)
            if earlier is not one:
                found[address.lower()] = _joined(earlier, one, mistakes, adds=adds)
    _check_all(found, mistakes)
    return ResourceSpec(tuple(map(_host, found.values())))


def _joined(earlier: Entry, entry: Entry, mistakes: Mistakes, *, adds: bool) -> Entry:
    count = (earlier.count or 1) + (entry.count or 1)
    if not adds:
        mistakes.add(f"{entry.where}`{entry.addresses[0]}` appears twice, a host is given once with all its devices")
    elif entry.kind != earlier.kind or count > _MOST_DEVICES:
        problem = "devices of another kind" if entry.kind != earlier.kind else f"more than {_MOST_DEVICES} devices"
        mistakes.add(f"{entry.where}`{entry.addresses[0]}` appears again with {problem}")
    return replace(earlier, count=min(count, _MOST_DEVICES))


def _check_all(found: dict[str, Entry], mistakes: Mistakes) -> None:
    here = [entry for address, entry in found.items() if is_loopback(address)]
    others = [entry.addresses[0] for address, entry in found.items() if not is_loopback(address)]
    if others:
        for entry in here:
            remedy = f"`{others[0]}` can't reach it, give this machine's own name or address"
            mistakes.add(f"{entry.where}`{entry.addresses[0]}` is a loopback address: {remedy}")
    if len(found) > MAX_HOSTS:
        mistakes.add(f"there are {len(found):,} hosts, at most {MAX_HOSTS:,} are allowed")
    mistakes.check()


def _host(entry: Entry) -> Host:
    count, is_gpu = entry.count or 1, entry.kind == "GPU"
    return Host(
        name=entry.addresses[0],
        address=entry.addresses[0],
        cpus=1 if is_gpu else count,
        gpus=tuple(range(count)) if is_gpu else (),
        memory_gb=entry.memory_gb,
    )
