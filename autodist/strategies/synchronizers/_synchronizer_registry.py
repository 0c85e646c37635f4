"""Finds synchronizers by their type: our own and those that other packages bring through entry points."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from autodist.errors import StrategyError
from autodist.registry import Registry, suggestion
from autodist.strategies.synchronizers._all_reduce_synchronizer import AllReduceSynchronizer
from autodist.strategies.synchronizers._base import Synchronizer
from autodist.strategies.synchronizers._broadcast_synchronizer import BroadcastSynchronizer
from autodist.strategies.synchronizers._ps_synchronizer import PSSynchronizer
from autodist.strategies.synchronizers._tile_synchronizer import TileSynchronizer

ENTRY_POINT_GROUP = "autodist.synchronizers"

SYNCHRONIZERS: tuple[type[Synchronizer], ...] = (
    PSSynchronizer,
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    TileSynchronizer,
)
"""The synchronizers of this package."""

_REGISTRY: Registry[Synchronizer] = Registry("synchronizer", Synchronizer, ENTRY_POINT_GROUP, SYNCHRONIZERS, tag="type")
_OWN = {cls.type: cls for cls in SYNCHRONIZERS}


def kind_of(type_: str) -> type[Synchronizer]:
    """Return the class whose ``type`` this is.

    Raises:
        StrategyError: There is none, it can't be loaded, or two packages bring one of this type.

    Example:
        >>> kind_of("AllReduce").verb
        'all-reduced'
    """
    return _OWN.get(type_) or _of_others(type_)


@functools.cache  # only classes that are found are cached: others raise an error, and are looked for again
def _of_others(type_: str) -> type[Synchronizer]:
    found = _REGISTRY.find(type_)
    if found is None:
        known = synchronizers()
        raise StrategyError(
            f"there is no synchronizer `{type_}`{suggestion(type_, known)}, known are {', '.join(known)}",
            hint="if another package brings it, install the package here",
        )
    return found


@functools.cache
def synchronizers() -> Mapping[str, type[Synchronizer]]:
    """All classes by their ``type``, ours first."""
    return {**_OWN, **{cls.type: cls for cls in _REGISTRY.classes()}}
