"""Drawing proposals from a space, within the constraints of algorithms 9 and 10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.search._constraints import adjacent_groups, balanced_servers
from autodist.search._proposals import Proposals
from autodist.simulator import ALL_REDUCE, Floats, Ints

if TYPE_CHECKING:
    from autodist.search._catalogue import Catalogue
    from autodist.search._space import Space

__all__ = ["arranged", "rearranged", "sample"]

_CONCENTRATION = 0.4
"""Of the Dirichlet distribution of a proposal's tastes: below 1, most proposals prefer few choices."""
_LARGE_BYTES = 1 << 18


def sample(space: Space, catalogue: Catalogue, count: int, chance: np.random.Generator) -> Proposals:
    """Draw proposals.

    Were every variable's choice drawn on its own, all proposals for a large graph would be the same mixture. So each
    proposal has tastes: how likely it chooses which kind of synchronization for sparse, large and small variables.

    Args:
        space: What they are drawn from.
        catalogue: Of the space.
        count: How many.
        chance: Where the draws come from.

    """
    families = chance.integers(len(space.families), size=count)
    kinds = _kinds(space)
    tastes = np.log(chance.gamma(_CONCENTRATION, size=(count, kinds.max() + 1)) + 1e-30).astype(np.float32)
    scores = tastes[:, kinds] + chance.gumbel(size=(count, len(kinds))).astype(np.float32)
    scores[~space.masks[families]] = -np.inf
    choices = np.stack([np.argmax(part, 1) for part in np.split(scores, catalogue.first[1:-1], 1)], 1)
    chosen = (choices + catalogue.first[:-1]).astype(np.int32)
    return arranged(Proposals.of(chosen, catalogue), space, chance)


def _kinds(space: Space) -> Ints:
    """By choice of all units, its kind: how it synchronizes, together with what kind of variable it is for."""
    numbers: dict[object, int] = {}
    found = []
    for unit in space.units:
        size = sum(variable.size_bytes for variable in unit.variables)
        trait = "sparse" if any(v.is_sparse for v in unit.variables) else size >= _LARGE_BYTES
        for choice in unit.choices:
            words = frozenset(word for word in choice.words if not word.startswith("partition="))
            found.append(numbers.setdefault((trait, words), len(numbers)))
    return np.array(found, np.int32)


def arranged(proposals: Proposals, space: Space, chance: np.random.Generator) -> Proposals:
    """The same choices with servers drawn by algorithm 9 and groups made by algorithm 10, their number drawn."""
    servers = _servers(proposals, space, chance)
    groups = _groups(proposals, space, chance)
    return Proposals(proposals.choices, proposals.table.replaced(server=servers, group=groups))


def rearranged(proposals: Proposals, space: Space, catalogue: Catalogue, chance: np.random.Generator) -> Proposals:
    """Children of several proposals, made whole: one family, one server for what is coupled, and groups of their own.

    A choice of another family than most of a proposal's is drawn anew.
    """
    masks = space.masks[:, proposals.choices].transpose(1, 0, 2)
    family = masks.sum(2).argmax(1)
    fits = masks[np.arange(len(proposals)), family]
    choices = proposals.choices.copy()
    for row, unit in np.argwhere(~fits):
        first, end = catalogue.first[unit : unit + 2]
        choices[row, unit] = chance.choice(first + np.flatnonzero(space.masks[family[row], first:end]))
    fresh = arranged(Proposals.of(choices, catalogue), space, chance)
    kept = proposals.crossed(fresh, ~fits, catalogue)
    return Proposals(kept.choices, kept.table.replaced(group=_groups(kept, space, chance)))


def _servers(proposals: Proposals, space: Space, chance: np.random.Generator) -> Ints:
    table, served = proposals.table, proposals.is_served
    servers = np.full(len(table), -1, np.int32)
    if not served.any():
        return servers
    places, inverse = np.unique(_places(proposals, space)[served], return_inverse=True)
    sizes = np.bincount(inverse, table.size_bytes[served]).astype(np.float32)
    owners = (places >> 40).astype(np.int32)
    order = np.lexsort((-sizes, owners))
    padded, cells = _padded(sizes[order], owners[order], len(proposals))
    capacities = np.array([host.bandwidth_gbps for host in space.domain.spec.hosts], np.float32)
    drawn = np.empty(len(places), np.int32)
    drawn[order] = balanced_servers(padded, capacities, chance)[cells]
    servers[served] = drawn[inverse]
    return servers


def _places(proposals: Proposals, space: Space) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """By shard, a number of what has one server: the k-th shards of a unit's variables in a proposal."""
    table = proposals.table
    keys = (table.strategy.astype(np.int64) << 40) | (space.unit_of[table.variable].astype(np.int64) << 20)
    return keys | _slots(table.strategy, table.variable)


def _slots(strategy: Ints, variable: Ints) -> Ints:
    changes = (np.diff(strategy, prepend=-1) != 0) | (np.diff(variable, prepend=-1) != 0)
    begins = np.flatnonzero(changes)
    return (np.arange(len(strategy)) - np.repeat(begins, np.diff(np.append(begins, len(strategy))))).astype(np.int32)


def _groups(proposals: Proposals, space: Space, chance: np.random.Generator) -> Ints:
    table = proposals.table
    groups = np.full(len(table), -1, np.int32)
    reduced = table.kind == ALL_REDUCE
    is_sparse = table.gathered_by_example > 0
    dense = np.flatnonzero(reduced & ~is_sparse)
    most = np.bincount(table.strategy[dense], minlength=len(proposals))
    # As many groups as shards, or one, and all between: their number is drawn on a logarithmic scale.
    counts = np.ceil(np.exp(chance.uniform(size=len(proposals)) * np.log(np.maximum(most, 1)))).astype(np.int32)
    padded, cells = _padded(table.summed_bytes[dense], table.strategy[dense], len(proposals))
    numbers = adjacent_groups(padded, counts)[cells]
    # A buffer has one dtype, and what is sparse travels alone.
    groups[dense] = numbers * space.num_dtypes + space.dtype_of[table.variable[dense]]
    alone = np.flatnonzero(reduced & is_sparse)
    groups[alone] = (len(table) + 1) * space.num_dtypes + np.arange(len(alone))
    return groups


def _padded(values: Floats, owners: Ints, count: int) -> tuple[Floats, tuple[Ints, Ints]]:
    """One row per owner, filled up with zeros, and where each value is."""
    begins = np.searchsorted(owners, np.arange(count))
    columns = (np.arange(len(owners)) - begins[owners]).astype(np.int32)
    padded = np.zeros((count, columns.max(initial=-1) + 1), np.float32)
    padded[owners, columns] = values
    return padded, (owners, columns)
