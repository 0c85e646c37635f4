"""The search for a fast strategy: AutoSync (thesis chapter 8)."""

from autodist.search._aspects import ASPECTS, Aspect, Choice, Scene
from autodist.search._catalogue import Catalogue
from autodist.search._constraints import Rule, adjacent_groups, balanced_servers
from autodist.search._proposals import Proposals
from autodist.search._sampling import arranged, sample
from autodist.search._searchers import SEARCHERS, Found, GeneticSearcher, RandomSearcher, Score, Searcher
from autodist.search._selection import agreement, cosine, select
from autodist.search._space import Family, Space, Unit
from autodist.search._store import Study, TrialStore
from autodist.search._trials import Failure, Measurement, Reason, Trial
from autodist.search._tuner import BASELINE, Bench, Budget, Plan, Tuner

__all__ = [
    "ASPECTS",
    "BASELINE",
    "SEARCHERS",
    "Aspect",
    "Bench",
    "Budget",
    "Catalogue",
    "Choice",
    "Failure",
    "Family",
    "Found",
    "GeneticSearcher",
    "Measurement",
    "Plan",
    "Proposals",
    "RandomSearcher",
    "Reason",
    "Rule",
    "Scene",
    "Score",
    "Searcher",
    "Space",
    "Study",
    "Trial",
    "TrialStore",
    "Tuner",
    "Unit",
    "adjacent_groups",
    "agreement",
    "arranged",
    "balanced_servers",
    "cosine",
    "sample",
    "select",
]
