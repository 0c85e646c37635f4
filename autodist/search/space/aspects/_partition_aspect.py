"""Into which shards a variable is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist.search.space.aspects._base import Aspect, Choice, Scene
from autodist.strategies import can_split

__all__ = ["Partitioning"]

_MIN_SHARD_BYTES = 16 * 1024
"""A smaller shard costs its messages more than its bytes."""


@final
class Partitioning(Aspect):
    """Nearly even parts along one dim: two, half as many as hosts, as many, twice as many."""

    name: ClassVar[str] = "partition"
    words: ClassVar[frozenset[str]] = frozenset({"partition", "whole"})

    def options(self, choice: Choice, scene: Scene) -> Iterator[Choice]:
        """The whole variable, then its partitions with shards that are worth their messages."""
        yield choice
        [first, *others] = scene.variables
        hosts = scene.spec.world_size
        if others or hosts == 1:
            return
        counts = sorted({2, hosts // 2, hosts, 2 * hosts} - {0, 1})
        for dim, length in enumerate(first.shape):
            for count in counts:
                if (
                    count <= length
                    and first.size_bytes >= count * _MIN_SHARD_BYTES
                    and can_split(scene.graph, first, dim)
                ):
                    parts = tuple(count if k == dim else 1 for k in range(len(first.shape)))
                    yield dataclasses.replace(choice, partition=parts)
