"""Small changes of many proposals at once: the changes of local search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.search.space import (
    Mask,
    Proposals,
    grouped,
    is_dense,
    numbered,
    places_of,
    sampled_choices,
    served,
    united,
)
from autodist.simulator import Ints

if TYPE_CHECKING:
    from autodist.search.space import Catalogue, Rows, Space

_UNIT, _KIND, _SPAN, _SERVER, _GROUP, _CROSS = range(6)
_LIKELY = np.array([0.25, 0.1, 0.1, 0.15, 0.15, 0.25])
"""The probability of each kind of change."""
_JOINED = 0.5
"""The probability that a gradient that is newly all-reduced joins the group before it, instead of a new one."""


def neighbours(
    parents: Proposals, mates: Proposals, space: Space, catalogue: Catalogue, chance: np.random.Generator
) -> Proposals:
    """A child of each proposal that differs from it in one thing.

    It is the choice for one unit, for all sparse, all large or all small ones, or for some that follow each other in
    the backward pass; the server of one shard; or where groups begin, and how many there are. Some children have half
    of another parent. Servers are drawn by algorithm 9, so that hosts with more bandwidth and less load are likelier.
    """
    ways = _ways(parents, space, chance)
    changed = _units(ways, catalogue, chance)
    fits = space.masks[:, parents.choices].all(2)
    families = (chance.random(fits.shape) * fits).argmax(0).astype(np.int32)
    drawn = Proposals.of(sampled_choices(space, catalogue, families, chance), catalogue)
    of_mate = (ways == _CROSS)[:, None] & (chance.random(changed.shape) < 0.5)
    crossed = parents.crossed(drawn, changed, catalogue).crossed(mates, of_mate, catalogue)
    children, redrawn = united(crossed, space, catalogue, chance)
    is_new, is_other = (children.shards_of(units, catalogue) for units in (changed | redrawn, of_mate))
    moved = _places(children, ways == _SERVER, space, chance)
    avoided = np.where(moved, children.table.server, np.int32(-1))
    children = children.replaced(server=served(children, space, chance, moved | is_new, avoided=avoided))
    joins = is_other | (chance.random(len(is_new)) < _JOINED)
    return children.replaced(group=_groups(children, is_new | is_other, joins, ways == _GROUP, space, chance))


def _ways(parents: Proposals, space: Space, chance: np.random.Generator) -> Ints:
    """The kind of change of each proposal; a unit's choice where there is no server or group to change."""
    ways = chance.choice(len(_LIKELY), len(parents), p=_LIKELY).astype(np.int32)
    some_served = np.bincount(parents.table.strategy, parents.is_served, len(parents)) > 0
    some_grouped = np.bincount(parents.table.strategy, is_dense(parents.table), len(parents)) > 1
    ways[(ways == _SERVER) & ~(some_served & (space.domain.spec.world_size > 1))] = _UNIT
    ways[(ways == _GROUP) & ~some_grouped] = _UNIT
    return ways


def _units(ways: Ints, catalogue: Catalogue, chance: np.random.Generator) -> Mask:
    """The units whose choices are drawn again, large ones with a higher probability; shape (proposals, units)."""
    count = len(catalogue.traits)
    sizes = np.sqrt(catalogue.unit_bytes) + 1
    likely = sizes / sizes.sum() / 2 + 1 / count / 2
    one = chance.choice(count, len(ways), p=likely / likely.sum())
    number = np.arange(count)
    end = one + chance.geometric(min(1.0, 4 / count), len(ways))
    chosen: Mask = (ways == _UNIT)[:, None] & (number == one[:, None])
    chosen |= (ways == _KIND)[:, None] & (catalogue.traits == catalogue.traits[one][:, None])
    chosen |= (ways == _SPAN)[:, None] & (number >= one[:, None]) & (number <= end[:, None])
    return chosen


def _places(children: Proposals, wanted: Mask, space: Space, chance: np.random.Generator) -> Mask:
    """A mask of the shards of one place, see `places_of`, in each of the proposals that are wanted."""
    rows = np.flatnonzero(children.is_served & wanted[children.table.strategy])
    moved = np.zeros(len(children.table), bool)
    if len(rows):
        places = places_of(children, space)[rows]
        begins = np.flatnonzero(np.diff(children.table.strategy[rows], prepend=-1))
        lengths = np.diff(np.append(begins, len(rows)))
        drawn = begins + (chance.random(len(begins)) * lengths).astype(np.int32)
        moved[rows] = np.isin(places, places[drawn])
    return moved


def _groups(
    children: Proposals, is_new: Mask, joins: Mask, wanted: Mask, space: Space, chance: np.random.Generator
) -> Ints:
    """The groups of the parents; with a change where one is wanted."""
    table = children.table
    rows = np.flatnonzero(is_dense(table))
    groups = np.zeros(len(table), np.int32)
    if not len(rows):
        return numbered(groups, children, space)
    owners = table.strategy[rows]
    begins = np.searchsorted(owners, np.arange(len(children)))
    within = (np.arange(len(rows)) - begins[owners]).astype(np.int32)
    ids = _continued(table.group[rows], is_new[rows], joins[rows], within)
    is_redrawn = wanted & (chance.random(len(children)) < 0.25)
    lengths = np.bincount(owners, minlength=len(children))
    _regroup(ids, owners, begins, within, wanted & ~is_redrawn & (lengths > 1), lengths, chance)
    if is_redrawn.any():
        ids = np.where(is_redrawn[owners], grouped(children, space, chance)[rows], ids)
    groups[rows] = ids
    return numbered(groups, children, space)


def _continued(groups: Ints, is_new: Mask, joins: Mask, within: Ints) -> Ints:
    """The groups of reduced shards; a new one travels with the one before it, or alone."""
    places = np.arange(len(groups))
    last = np.maximum.accumulate(np.where(is_new, -1, places))
    joined = np.where(joins & (last >= places - within), groups[last], groups.max(initial=0) + 1 + within)
    found: Ints = np.where(is_new, joined, groups).astype(np.int32)
    return found


def _regroup(
    ids: Ints, owners: Ints, begins: Rows, within: Ints, wanted: Mask, lengths: Rows, chance: np.random.Generator
) -> None:
    """Change where one group begins: it is split, joined to the one before, or gives that its first shard."""
    who = np.flatnonzero(wanted)
    place = 1 + (chance.random(len(who)) * (lengths[who] - 1)).astype(np.int32)
    here, before = ids[begins[who] + place], ids[begins[who] + place - 1]
    splits, shifts = here == before, chance.random(len(who)) < 0.5
    source, target = (np.full(len(wanted), -1, np.int32) for _ in range(2))
    source[who] = here
    target[who] = np.where(splits, ids.max() + 1, before)
    first, last = np.zeros(len(wanted), np.int32), np.full(len(wanted), len(ids), np.int32)
    first[who] = np.where(splits | shifts, place, 0)
    last[who] = np.where(~splits & shifts, place, len(ids))
    changed = (ids == source[owners]) & (within >= first[owners]) & (within <= last[owners])
    ids[changed] = target[owners][changed]
