"""Drawing proposals from a space, within the constraints of algorithms 9 and 10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.search.space._arrangement import arranged, grouped, served
from autodist.search.space._proposals import Mask, Proposals
from autodist.simulator import Ints

if TYPE_CHECKING:
    from autodist.search.space._catalogue import Catalogue, Rows
    from autodist.search.space._space import Space

_CONCENTRATION = 0.4
"""Parameter of the Dirichlet distribution of a proposal's tastes: below 1, most proposals prefer few choices."""
_ALMOST_1 = 1 - 1e-9


def sample(space: Space, catalogue: Catalogue, count: int, chance: np.random.Generator) -> Proposals:
    """Draw proposals.

    If every variable's choice were drawn on its own, all proposals for a large graph would be the same mixture. So each
    proposal has tastes: its probabilities of each kind of synchronization for sparse, large and small variables.
    """
    families = chance.integers(len(space.families), size=count, dtype=np.int32)
    choices = sampled_choices(space, catalogue, families, chance)
    return arranged(Proposals.of(choices, catalogue), space, chance)


def sampled_choices(space: Space, catalogue: Catalogue, families: Ints, chance: np.random.Generator) -> Ints:
    """Draw the choices of proposals by tastes, each within a family; shape (proposals, units)."""
    has = np.zeros((len(space.families), catalogue.kinds.max() + 1), bool)
    has[:, catalogue.kinds] = space.masks
    tastes = chance.standard_gamma(_CONCENTRATION, (len(families), has.shape[1]))
    rates = np.maximum(tastes, 1e-30) * has[families]
    choices = np.empty((len(families), len(space.units)), np.int32)
    for units, kinds in catalogue.alike:
        ends = rates[:, kinds].cumsum(1)
        drawn = chance.random((len(families), len(units))) * ends[:, -1:] * _ALMOST_1
        chosen = (drawn[:, :, None] >= ends[:, None, :-1]).sum(2, dtype=np.int32)
        choices[:, units] = catalogue.first[units] + chosen
    return choices


def rearranged(proposals: Proposals, space: Space, catalogue: Catalogue, chance: np.random.Generator) -> Proposals:
    """Children of several proposals, made whole: one family, one server for what is coupled, and groups of their own.

    A choice of another family than most of a proposal's is drawn again.
    """
    whole, drawn = united(proposals, space, catalogue, chance)
    drawn_shards = whole.shards_of(drawn, catalogue)
    return whole.replaced(server=served(whole, space, chance, drawn_shards), group=grouped(whole, space, chance))


def united(
    proposals: Proposals, space: Space, catalogue: Catalogue, chance: np.random.Generator
) -> tuple[Proposals, Mask]:
    """Proposals of one family each, that of most of their choices: others are drawn again, without servers and groups.

    Returns:
        The proposals, and by proposal and unit whether its choice is new.
    """
    masks = space.masks[:, proposals.choices].transpose(1, 0, 2)
    family = masks.sum(2).argmax(1)
    misfits = ~masks[np.arange(len(proposals)), family]
    if not misfits.any():
        return proposals, misfits
    rows, units = np.nonzero(misfits)
    choices = proposals.choices.copy()
    choices[rows, units] = _any_of(family[rows], units, space, catalogue, chance)
    return proposals.crossed(Proposals.of(choices, catalogue), misfits, catalogue), misfits


def _any_of(families: Rows, units: Rows, space: Space, catalogue: Catalogue, chance: np.random.Generator) -> Ints:
    """Draw one of the choices that each unit has in a family."""
    counts = np.add.reduceat(space.masks, catalogue.first[:-1], 1, dtype=np.int32)
    choices = np.nonzero(space.masks)[1]
    begins = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    drawn = (chance.random(len(units)) * counts[families, units]).astype(np.int32)
    found: Ints = choices[begins[families, units] + drawn].astype(np.int32)
    return found
