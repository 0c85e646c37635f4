"""Shards of one variable that have several synchronizers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist import carriers
from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext
from autodist.strategies import AllReduceSynchronizer, PSSynchronizer, num_shards


@final
class MixedShards(Aspect):
    """Whether the first half of a variable's shards is on servers, while all workers have the others (figure 7.3).

    Servers may be on hosts with fast links, while all hosts do their part of an all-reduce: where links differ, both
    together may use them better. Every partition has such a variant, so there are up to half as many choices again.
    """

    name: ClassVar[str] = "mixed"
    words: ClassVar[frozenset[str]] = frozenset({"mixed"})
    is_extra: ClassVar[bool] = True

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """One synchronizer for all shards, and two where a server and an all-reduce can have the same carrier."""
        yield choice
        shards = num_shards(choice.partition)
        reduced = dataclasses.replace(choice, synchronizer=AllReduceSynchronizer.type)
        if choice.synchronizer != PSSynchronizer.type or shards < 2 or choice.communicator is None:
            return
        if carriers.get(choice.communicator).has_streams and AllReduceSynchronizer.suits(reduced, context):
            half = shards // 2
            kinds = (PSSynchronizer.type,) * half + (AllReduceSynchronizer.type,) * (shards - half)
            yield dataclasses.replace(choice, by_shard=kinds)
