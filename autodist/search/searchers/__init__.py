"""Searchers: they propose strategies, each by its algorithm."""

from autodist.search.searchers._base import Score, ScoredProposals, Searcher
from autodist.search.searchers._genetic import GeneticSearcher
from autodist.search.searchers._local_searcher import LocalSearcher
from autodist.search.searchers._random_searcher import RandomSearcher

__all__ = ["SEARCHERS", "GeneticSearcher", "LocalSearcher", "RandomSearcher", "Score", "ScoredProposals", "Searcher"]

SEARCHERS: tuple[type[Searcher], ...] = (RandomSearcher, GeneticSearcher, LocalSearcher)
