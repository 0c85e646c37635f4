"""The points at which workers meet within a step: what replicas exchange before their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.carriers import Passed, Scattered
from autodist.graph import NodeList
from autodist.kernels._base import Combine, SyncPoint


class ReplicaPoints:
    """Adds points to a step.

    Args:
        out: Where to add nodes.
        members: The workers of a group of replicas; None where all replicas are one.
        points: The points so far; others are added.
    """

    def __init__(self, out: NodeList, members: tuple[int, ...] | None, points: list[SyncPoint]) -> None:
        self._out = out
        self._members = members
        self._points = points

    def at(
        self,
        label: str,
        combine: Combine,
        local: str,
        dtype: str,
        shape: tuple[int | None, ...] | None,
        scattered: Scattered | None = None,
        *,
        is_of_all: bool = False,
    ) -> str:
        """Add a point for a local value, of this worker's group or of all workers; returns the value of all."""
        name = self._out.identity(f"autodist/synced/{label}", local, dtype)
        members = None if is_of_all else self._members
        if members is None or len(members) > 1:
            kinds = (dtype,), (shape,)
            self._points.append(
                SyncPoint(label, None, combine, (local,), (name,), *kinds, scattered=scattered, members=members)
            )
        return name

    def passing(
        self, label: str, local: Sequence[str], passed: Passed, dtype: str, rank: int
    ) -> tuple[list[str], list[str]]:
        """Add a point at which workers pass rows to each other; returns the local values, and what this one is given.

        What stays goes through the point as well: so each worker counts it as a layer of exchanges, even one that is
        given nothing, and all workers give the points behind it the same layer.
        """
        names = [f"autodist/kept/{label}/{k}" for k in range(len(local))]
        kept = [self._out.identity(name, value, dtype) for name, value in zip(names, local, strict=True)]
        given = [self._out.identity(f"autodist/passed/{label}/{by}", passed.none, dtype) for by in passed.by(rank)]
        synced, members = (*kept, *given), self._members
        kinds = (dtype,) * len(synced), (None,) * len(synced)
        self._points.append(
            SyncPoint(label, None, Combine.PASS, tuple(local), synced, *kinds, passed=passed, members=members)
        )
        return kept, given
