"""The space of strategies: what each unit may choose, what users and theory rule out, and proposals in it."""

from autodist.search.space._arrangement import arranged, grouped, is_dense, numbered, places_of, served
from autodist.search.space._catalogue import Catalogue, Rows
from autodist.search.space._constraint_checks import keeps_results, obeys
from autodist.search.space._constraints import Rule, adjacent_groups, balanced_servers
from autodist.search.space._proposals import Mask, Proposals
from autodist.search.space._recognition import recognize
from autodist.search.space._sampling import rearranged, sample, sampled_choices, united
from autodist.search.space._space import Family, Space, Unit

__all__ = [
    "Catalogue",
    "Family",
    "Mask",
    "Proposals",
    "Rows",
    "Rule",
    "Space",
    "Unit",
    "adjacent_groups",
    "arranged",
    "balanced_servers",
    "grouped",
    "is_dense",
    "keeps_results",
    "numbered",
    "obeys",
    "places_of",
    "rearranged",
    "recognize",
    "sample",
    "sampled_choices",
    "served",
    "united",
]
