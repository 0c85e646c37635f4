"""Searchers: who proposes strategies, each with its algorithm."""

from autodist.search.searchers._base import Found, Score, Searcher
from autodist.search.searchers._genetic import GeneticSearcher
from autodist.search.searchers._local_searcher import LocalSearcher
from autodist.search.searchers._random_searcher import RandomSearcher

__all__ = ["SEARCHERS", "Found", "GeneticSearcher", "LocalSearcher", "RandomSearcher", "Score", "Searcher"]

SEARCHERS: tuple[type[Searcher], ...] = (RandomSearcher, GeneticSearcher, LocalSearcher)
