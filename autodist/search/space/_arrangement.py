"""Draws the servers and groups of shards for many proposals at once: algorithms 9 and 10 of the thesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autodist.search.space._constraints import adjacent_groups, balanced_servers
from autodist.search.space._proposals import Mask, Proposals
from autodist.simulator import ALL_REDUCE, Floats, Ints, ShardTable, peak_needs, serving_needs

if TYPE_CHECKING:
    from autodist.search.space._catalogue import Rows
    from autodist.search.space._space import Space


def arranged(proposals: Proposals, space: Space, chance: np.random.Generator) -> Proposals:
    """The same choices with servers drawn by algorithm 9 and groups made by algorithm 10, their number drawn.

    In a space that is not guided, all servers and all groups are equally likely.
    """
    servers = served(proposals, space, chance, np.ones(len(proposals.table), bool))
    return proposals.replaced(server=servers, group=grouped(proposals, space, chance))


def served(
    proposals: Proposals, space: Space, chance: np.random.Generator, drawn: Mask, *, avoided: Ints | None = None
) -> Ints:
    """Draw servers by algorithm 9, which looks at what the servers have already.

    Args:
        proposals: The proposals whose shards are served.
        space: Their space.
        chance: The random generator.
        drawn: By shard, whether its server is drawn; the others stay where they are. Shards of one place, see
            :func:`places_of`, are drawn together or not at all.
        avoided: By shard, a server that it may not get, -1 for none.

    Returns:
        Ranks of hosts by shard, -1 for shards that are on no server.
    """
    table = proposals.table
    servers = np.where(proposals.is_served, table.server, np.int32(-1))
    rows = np.flatnonzero(proposals.is_served & drawn)
    if not len(rows):
        return servers
    first, inverse = _first_of_places(proposals, space, rows)
    if not space.is_guided:
        servers[rows] = chance.integers(space.domain.spec.world_size, size=len(first), dtype=np.int32)[inverse]
        return servers
    sizes = np.bincount(inverse, table.size_bytes[rows]).astype(np.float32)
    owners = table.strategy[rows[first]]
    order = _largest_first(owners, sizes)
    padded, cells = _padded(sizes[order], owners[order], len(proposals))
    capacities = np.array([host.bandwidth_gbps for host in space.domain.spec.hosts], np.float32)
    kept = np.flatnonzero(proposals.is_served & ~drawn)
    loads = _loads(table.take(kept), len(proposals), len(capacities)) if len(kept) else None
    barred = None
    if avoided is not None:
        barred = np.full(padded.shape, -1, np.int32)
        barred.ravel()[cells] = avoided[rows[first]][order]
    found = np.empty(len(first), np.int32)
    free, needs = _free(proposals, space, rows), None
    if free is not None:
        needs = np.zeros((*padded.shape, len(capacities)), np.float32)
        columns = serving_needs(table.take(rows), space.domain).T
        needs.reshape(-1, len(capacities))[cells] = np.stack([np.bincount(inverse, c) for c in columns], 1)[order]
    found[order] = balanced_servers(padded, capacities, chance, loads, barred, free, needs).ravel()[cells]
    servers[rows] = found[inverse]
    return servers


def _free(proposals: Proposals, space: Space, drawn: Rows) -> Floats | None:
    """Bytes of memory that are left on each host before these shards are served; None if the spec has no bounds."""
    limits = space.domain.memory_bytes
    if np.isinf(limits).all():
        return None
    server = proposals.table.server.copy()
    server[drawn] = -1
    left: Floats = limits - peak_needs(proposals.table.replaced(server=server), space.domain, len(proposals))
    return left


def places_of(proposals: Proposals, space: Space) -> npt.NDArray[np.int64]:
    """By shard, the number of its place, which has one server: that of the k-th shards of a unit's variables."""
    table = proposals.table
    keys = (table.strategy.astype(np.int64) << 40) | (space.unit_of[table.variable].astype(np.int64) << 20)
    return keys | _slots(table.strategy, table.variable)


def is_dense(table: ShardTable) -> Mask:
    """By shard, whether its gradient is reduced and can travel with others: sparse gradients travel alone."""
    dense: Mask = _has_group(table) & (table.gathered_by_example == 0)
    return dense


def _has_group(table: ShardTable) -> Mask:
    """By shard, whether its synchronizer puts it into a group."""
    found: Mask = (table.kind == ALL_REDUCE) & (table.group >= 0)
    return found


def grouped(proposals: Proposals, space: Space, chance: np.random.Generator) -> Ints:
    """Groups by algorithm 10; their number is drawn on a logarithmic scale between one and the number of shards."""
    table = proposals.table
    dense = np.flatnonzero(is_dense(table))
    most = np.bincount(table.strategy[dense], minlength=len(proposals))
    counts = np.exp(chance.uniform(size=len(proposals)) * np.log(most + 1)).astype(np.int32)
    if not space.is_guided:
        drawn = chance.integers(np.maximum(counts, 1)[table.strategy[dense]], dtype=np.int32)
        return _with_sparse(_of_one_dtype(drawn, proposals, space, dense), proposals, dense)
    padded, cells = _padded(table.summed_bytes[dense], table.strategy[dense], len(proposals))
    numbers = adjacent_groups(padded, counts).ravel()[cells]
    if space.num_dtypes > 1:
        numbers = _of_one_dtype(numbers, proposals, space, dense)
    return _with_sparse(numbers, proposals, dense)


def numbered(groups: Ints, proposals: Proposals, space: Space) -> Ints:
    """The same groups by numbers that count from 0 in the order in which they appear, so that they can be compared.

    Args:
        groups: By shard, any number of its group, at least 0; only those of dense all-reduced shards matter.
        proposals: Whose shards they are.
        space: Where they are from.

    Returns:
        Numbers of groups whose members have one dtype, those of dense gradients before those of sparse ones, each of
        which is alone; what is not reduced has -1.
    """
    dense = np.flatnonzero(is_dense(proposals.table))
    return _with_sparse(_of_one_dtype(groups[dense], proposals, space, dense), proposals, dense)


def _of_one_dtype(groups: Ints, proposals: Proposals, space: Space, rows: Rows) -> Ints:
    owners, dtypes = proposals.table.strategy[rows], space.dtype_of[proposals.table.variable[rows]]
    return _by_appearance(groups * space.num_dtypes + dtypes, owners, len(proposals))


def _with_sparse(of_dense: Ints, proposals: Proposals, dense: Rows) -> Ints:
    """The groups of all shards, from those of dense all-reduced ones."""
    table = proposals.table
    numbers = np.full(len(table), -1, np.int32)
    numbers[dense] = of_dense
    sparse = np.flatnonzero(_has_group(table) & (table.gathered_by_example > 0))
    if len(sparse):
        most = np.full(len(proposals), -1, np.int32)
        np.maximum.at(most, table.strategy[dense], of_dense)
        alone = table.strategy[sparse]
        numbers[sparse] = most[alone] + 1 + _within(alone, len(proposals))
    return numbers


def _by_appearance(groups: Ints, owners: Ints, count: int) -> Ints:
    """Numbers of groups that count from 0 for each owner, in the order in which they appear."""
    if not len(groups):
        return groups
    keys = owners * (np.int64(groups.max()) + 1) + groups
    places = np.arange(len(keys), dtype=np.int32)
    first = np.empty(int(keys.max()) + 1, np.int32)
    first[keys[::-1]] = places[::-1]  # of several with one key the last assignment stays: that of the first shard
    heads = first[keys]
    appeared = np.cumsum(heads == places, dtype=np.int32)
    begins = np.searchsorted(owners, np.arange(count))
    before = np.concatenate([[0], appeared])[begins].astype(np.int32)
    found: Ints = appeared[heads] - 1 - before[owners]
    return found


def _first_of_places(proposals: Proposals, space: Space, rows: Rows) -> tuple[Rows, Rows]:
    """Among some shards, the first one of each place, and by shard the number of its place."""
    if len(space.units) == len(space.domain.variables):
        alone = np.arange(len(rows))
        return alone, alone
    _, first, inverse = np.unique(places_of(proposals, space)[rows], return_index=True, return_inverse=True)
    return first, inverse


def _loads(shards: ShardTable, count: int, hosts: int) -> Floats:
    """Bytes on each server of each proposal."""
    found = np.bincount(shards.strategy * hosts + shards.server, shards.size_bytes, count * hosts)
    return found.astype(np.float32).reshape(count, hosts)


def _largest_first(owners: Ints, sizes: Floats) -> Rows:
    """The order by owner, and within one by size; sorting whole numbers is several times faster than `lexsort`."""
    bits = sizes.view(np.int32).astype(np.int64)  # the bits of positive floats have the order of the floats
    return np.argsort((owners.astype(np.int64) << 32) - bits)


def _slots(strategy: Ints, variable: Ints) -> Ints:
    changes = (np.diff(strategy, prepend=-1) != 0) | (np.diff(variable, prepend=-1) != 0)
    begins = np.flatnonzero(changes)
    return (np.arange(len(strategy)) - np.repeat(begins, np.diff(np.append(begins, len(strategy))))).astype(np.int32)


def _within(owners: Ints, count: int) -> Ints:
    """By row, how many rows of its owner come before it."""
    begins = np.searchsorted(owners, np.arange(count))
    found: Ints = (np.arange(len(owners)) - begins[owners]).astype(np.int32)
    return found


def _padded(values: Floats, owners: Ints, count: int) -> tuple[Floats, Rows]:
    """One row per owner, padded with zeros, and the flat index of each value in these rows."""
    columns = _within(owners, count)
    padded = np.zeros((count, columns.max(initial=-1) + 1), np.float32)
    cells = owners * np.int64(padded.shape[1]) + columns
    padded.ravel()[cells] = values
    return padded, cells
