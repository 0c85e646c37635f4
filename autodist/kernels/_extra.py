"""Kernels of other packages: found by entry points, inserted after a named kernel of ours."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autodist.errors import StrategyError
from autodist.kernels._base import Kernel
from autodist.registry import Named, Registry

ENTRY_POINT_GROUP = "autodist.kernels"


@dataclass(frozen=True)
class ExtraKernel(Named, Kernel, abc.ABC):
    """A kernel of another package, which every run of a machine that has the package applies.

    A concrete one is a frozen dataclass whose fields have defaults. It takes the graph of one worker and returns it
    rewritten, or unchanged where there is nothing to do. All workers get the same kernels, and no kernel may rely on
    the graphs of other workers.
    """

    name: ClassVar[str]
    """The name of its entry point and class, which messages and dumped graphs use."""

    after: ClassVar[str]
    """Name of the kernel of ours that it follows, such as ``"replicate"``. After ``"place"`` it sets devices itself."""


_REGISTRY: Registry[ExtraKernel] = Registry("kernel", ExtraKernel, ENTRY_POINT_GROUP, ())


def extra_kernels() -> tuple[ExtraKernel, ...]:
    """The kernels of other packages by name; those that can't be loaded give a :class:`PluginWarning`.

    Raises:
        StrategyError: If two packages bring kernels of one name.
    """
    kernels = []
    for known in _REGISTRY.registered():
        found = _REGISTRY.find(known.name)
        assert found is not None
        kernels.append(found())
    return tuple(kernels)


def insert(kernels: Sequence[Kernel], extras: Sequence[ExtraKernel]) -> tuple[Kernel, ...]:
    """The kernels, with each extra one after the kernel that it names; several after one kernel are sorted by name.

    Raises:
        StrategyError: One of them names a place that does not exist.
    """
    places = [kernel.name for kernel in kernels]
    for extra in extras:
        after = getattr(extra, "after", None)
        if after not in places:
            raise StrategyError(
                f"the kernel `{extra.name}` is to follow {after!r}, allowed: {', '.join(map(repr, places))}",
                hint="its class says so in `after`; a package that brings it may be made for another version",
            )
    ordered = sorted(extras, key=lambda extra: extra.name)
    return tuple(k for kernel in kernels for k in (kernel, *(e for e in ordered if e.after == kernel.name)))
