"""Finds carriers by name: our own and those that other packages bring through entry points."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, TypeAlias

from autodist.carriers._base import Carrier
from autodist.carriers._collective import Collective
from autodist.carriers._horovod import Horovod
from autodist.carriers._tcp import Tcp
from autodist.errors import StrategyError
from autodist.registry import OneOf, Registry, suggestion

ENTRY_POINT_GROUP = "autodist.carriers"

CARRIERS: tuple[type[Carrier], ...] = (Tcp, Horovod, Collective)
"""The carriers of this package, the fastest first, as measured on CPUs in ``docs/performance.md``."""

FORMER = {"queue": "`queue`, TensorFlow's servers, is no longer there: `tcp` does all that it did"}
"""By carriers that earlier versions had, and that records of their trials name, what takes their place."""

_REGISTRY: Registry[Carrier] = Registry("carrier", Carrier, ENTRY_POINT_GROUP, CARRIERS)
_OWN = {cls.name: cls() for cls in CARRIERS}


def get(name: str) -> Carrier:
    """Return the carrier of this name.

    Raises:
        StrategyError: There is none, it can't be loaded, or two packages bring one of this name.
    """
    return _OWN.get(name) or _of_others(name)


@functools.cache  # only carriers that are found are cached: others raise an error, and are looked for again
def _of_others(name: str) -> Carrier:
    cls = _REGISTRY.find(name)
    if cls is None and name in FORMER:
        raise StrategyError(FORMER[name], hint="say `tcp` instead")
    if cls is None:
        raise StrategyError(
            f"there is no carrier `{name}`{suggestion(name, names())}, known are {', '.join(names())}",
            hint="if another package brings it, install the package here",
        )
    return cls()


def find(name: str) -> Carrier | None:
    """Return the carrier of this name, None if there is none."""
    if name in FORMER and name not in names():  # asked for each shard of a record; packages are looked through once
        return None
    try:
        return get(name)
    except StrategyError:
        return None


def names() -> tuple[str, ...]:
    """The names of all carriers: those of this package, the fastest first, then others."""
    return *_OWN, *_names_of_others()


@functools.cache
def _names_of_others() -> tuple[str, ...]:
    return tuple(cls.name for cls in _REGISTRY.classes() if cls.name not in _OWN)


def carriers() -> tuple[Carrier, ...]:
    """All carriers, in the order of :func:`names`."""
    return tuple(map(get, names()))


def optional() -> tuple[Carrier, ...]:
    """The carriers that may be missing on a machine, by name."""
    return tuple(sorted((one for one in carriers() if one.missing), key=lambda one: one.name))


def names_of(fits: Callable[[Carrier], object]) -> tuple[str, ...]:
    """The names of the carriers that fit a condition.

    Example:
        >>> names_of(lambda carrier: carrier.has_streams)
        ('tcp',)
    """
    return tuple(carrier.name for carrier in carriers() if fits(carrier))


@functools.cache
def installed_communicators() -> tuple[str, ...]:
    """The carriers that work on this machine, the fastest first; TensorFlow's collectives always do.

    Looks for AutoDist's library and for Horovod's without loading them: that takes a second and starts threads.

    Example:
        >>> "collective" in installed_communicators()
        True
    """
    return names_of(lambda carrier: carrier.is_available())


def carrier_of_groups() -> str:
    """The carrier of collectives of some of the workers.

    Example:
        >>> carrier_of_groups()
        'tcp'
    """
    return names_of(lambda carrier: carrier.has_groups)[0]


def carrier_of_servers() -> str:
    """The default carrier of messages to and from servers; verification reports if it is not installed.

    Example:
        >>> carrier_of_servers()
        'tcp'
    """
    return next(name for name in names() if get(name).has_streams)


def one_of(fits: Callable[[Carrier], object], *others: str, reads_former: bool = False) -> OneOf:
    """The names of the carriers that fit a condition, as the allowed values of a parameter.

    Args:
        fits: The condition.
        others: Further values, before these names.
        reads_former: Whether names of earlier versions are accepted when read.
    """
    own = (*others, *(name for name, carrier in _OWN.items() if fits(carrier)))
    return OneOf(own, lambda: (*others, *names_of(fits)), FORMER, reads_former)


CarrierName: TypeAlias = Annotated[str, one_of(lambda carrier: True)]
"""The name of a carrier of collectives."""
