"""The strategy on its way to the workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist import strategies
    from autodist.resource_spec import ResourceSpec

DEFAULT = "auto"
"""The strategy if neither command line nor script names one; known to be right without the searches, whose import takes
a while."""


def strategy_argument(strategy: str | None, place: str | None = None) -> str | None:
    """Return what workers get as the strategy: files by absolute path, all else as it is.

    Args:
        strategy: A builder's name with arguments, or a file.
        place: Where the worker's machine has the file that the strategy is in or reads, if there is one.

    Raises:
        StrategyError: It is neither a known builder with arguments that it takes nor a readable strategy.
    """
    if strategy is None or strategy == DEFAULT:
        return strategy
    from autodist import strategies

    found = strategies.get(strategy)
    file = _file_of(strategy, found)
    if file is None:
        return strategy
    path = str(file.resolve()) if place is None else place
    if isinstance(found, strategies.Strategy | strategies.Manual):
        return path
    assert found.file is not None
    return str(replace(found, **{found.file: path}))


def check_cluster(strategy: str | None, spec: ResourceSpec) -> None:
    """Check that a builder can build for a cluster, as far as that is known without the graph.

    Raises:
        StrategyError: It can't.
    """
    if strategy is None or strategy == DEFAULT:
        return
    from autodist import strategies

    found = strategies.get(strategy)
    if isinstance(found, strategies.StrategyBuilder):
        found.check_cluster(spec)


def file_of_strategy(strategy: str | None) -> Path | None:
    """Return the file that a strategy is in, or that its builder reads, if there is one."""
    if strategy is None or strategy == DEFAULT:
        return None
    from autodist import strategies

    return _file_of(strategy, strategies.get(strategy))


def _file_of(given: str, found: strategies.StrategyBuilder | strategies.Strategy) -> Path | None:
    from autodist import strategies

    if isinstance(found, strategies.Strategy):
        return Path(given)
    path = None if found.file is None else getattr(found, found.file)
    return None if path is None else Path(path)
