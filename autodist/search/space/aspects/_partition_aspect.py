"""The aspect of partitions: the shards into which a variable is cut."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, final

from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext
from autodist.search.space.aspects._uneven_links import has_uneven_links
from autodist.strategies import Partition, can_split

if TYPE_CHECKING:
    from autodist.graph import Variable

_MIN_SHARD_BYTES = 16 * 1024
"""The least bytes of a shard: a smaller one costs more for its messages than for its bytes."""
_BLOCK_BYTES = 512 * 1024
"""The least bytes of a variable that is cut into blocks: where rows are enough, blocks add no better choices."""


@final
class Partitioning(Aspect):
    """Parts along one dim, even or by the bandwidth of hosts, and blocks of large variables.

    Nearly even parts are two, half as many as hosts, as many, twice as many. Where some links are clearly slower, there
    are also as many parts as hosts, along the first dim that can be cut, each as large as its host's share of all
    bandwidth. Blocks are halves of two dims.
    """

    name: ClassVar[str] = "partition"
    words: ClassVar[frozenset[str]] = frozenset({"partition", "whole"})

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """The whole variable, then its partitions with shards that are worth their messages."""
        yield choice
        [variable, *others] = context.variables
        if others or context.spec.world_size == 1:
            return
        dims = [dim for dim in range(len(variable.shape)) if can_split(context.graph, variable, dim)]
        for partition in (
            *_even(variable, dims, context),
            *_by_bandwidth(variable, dims, context),
            *_blocks(variable, dims),
        ):
            yield dataclasses.replace(choice, partition=partition)


def _even(variable: Variable, dims: list[int], context: ChoiceContext) -> Iterator[Partition]:
    hosts = context.spec.world_size
    counts = sorted({2, hosts // 2, hosts, 2 * hosts} - {0, 1})
    for dim, count in itertools.product(dims, counts):
        if count <= variable.shape[dim] and variable.size_bytes >= count * _MIN_SHARD_BYTES:
            yield _along(variable, {dim: count})


def _by_bandwidth(variable: Variable, dims: list[int], context: ChoiceContext) -> Iterator[Partition]:
    spec = context.spec
    if not dims or not has_uneven_links(spec):
        return
    length, rates = variable.shape[dims[0]], [host.bandwidth_gbps for host in spec.hosts]
    ends = [round(length * so_far / sum(rates)) for so_far in itertools.accumulate(rates)]
    sizes = tuple(end - begin for begin, end in itertools.pairwise([0, *ends]))
    if min(sizes) * variable.size_bytes >= length * _MIN_SHARD_BYTES and len(set(sizes)) > 1:
        yield _along(variable, {dims[0]: sizes})


def _blocks(variable: Variable, dims: list[int]) -> Iterator[Partition]:
    if len(dims) > 1 and variable.size_bytes >= 4 * _BLOCK_BYTES:
        yield _along(variable, dict.fromkeys(dims[:2], 2))


def _along(variable: Variable, parts: Mapping[int, int | tuple[int, ...]]) -> Partition:
    return tuple(parts.get(dim, 1) for dim in range(len(variable.shape)))
