"""The search for a fast strategy: AutoSync (thesis chapter 8)."""

from autodist.search._arrangement import arranged
from autodist.search._aspects import ASPECTS, Aspect, Choice, Scene
from autodist.search._auto import DEFAULT_TRIALS, Auto
from autodist.search._baselines import known_strategies
from autodist.search._catalogue import Catalogue
from autodist.search._clusters import cluster_of, smaller_clusters
from autodist.search._comparison import CONTESTANTS, SPLITS, Comparison, Split, compare, count_of_comparisons
from autodist.search._constraints import Rule, adjacent_groups, balanced_servers
from autodist.search._datasets import DataSet, data_sets, graph_of
from autodist.search._excerpt import excerpt
from autodist.search._obedience import best_of, obeys
from autodist.search._proposals import Proposals
from autodist.search._recognition import recognize
from autodist.search._rehosting import are_alike, hardware_of, rehosted
from autodist.search._room import Room
from autodist.search._run_off import run_off
from autodist.search._sampling import sample
from autodist.search._searchers import (
    SEARCHERS,
    Found,
    GeneticSearcher,
    LocalSearcher,
    RandomSearcher,
    Score,
    Searcher,
)
from autodist.search._selection import agreement, cosine, select
from autodist.search._simulated_ranking import Effort, Ranked, Ranking, rank_offline
from autodist.search._space import Family, Space, Unit
from autodist.search._store import Study, TrialStore
from autodist.search._study_file import export_studies, import_studies
from autodist.search._trials import Failure, Measurement, Reason, Trial
from autodist.search._tuner import BASELINE, Bench, Budget, Plan, Tuner
from autodist.search._utility import UTILITIES, Bill, Cost, Time, Utility, hosts_of, utility_of

__all__ = [
    "ASPECTS",
    "BASELINE",
    "CONTESTANTS",
    "DEFAULT_TRIALS",
    "SEARCHERS",
    "SPLITS",
    "UTILITIES",
    "Aspect",
    "Auto",
    "Bench",
    "Bill",
    "Budget",
    "Catalogue",
    "Choice",
    "Comparison",
    "Cost",
    "DataSet",
    "Effort",
    "Failure",
    "Family",
    "Found",
    "GeneticSearcher",
    "LocalSearcher",
    "Measurement",
    "Plan",
    "Proposals",
    "RandomSearcher",
    "Ranked",
    "Ranking",
    "Reason",
    "Room",
    "Rule",
    "Scene",
    "Score",
    "Searcher",
    "Space",
    "Split",
    "Study",
    "Time",
    "Trial",
    "TrialStore",
    "Tuner",
    "Unit",
    "Utility",
    "adjacent_groups",
    "agreement",
    "are_alike",
    "arranged",
    "balanced_servers",
    "best_of",
    "cluster_of",
    "compare",
    "cosine",
    "count_of_comparisons",
    "data_sets",
    "excerpt",
    "export_studies",
    "graph_of",
    "hardware_of",
    "hosts_of",
    "import_studies",
    "known_strategies",
    "obeys",
    "rank_offline",
    "recognize",
    "rehosted",
    "run_off",
    "sample",
    "select",
    "smaller_clusters",
    "utility_of",
]
