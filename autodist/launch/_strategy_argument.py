"""The strategy on its way to the workers."""

from __future__ import annotations

from pathlib import Path

from autodist import strategies

__all__ = ["strategy_argument"]


def strategy_argument(strategy: str | None) -> str | None:
    """Return what workers get as the strategy: files by absolute path, all else as it is.

    Raises:
        StrategyError: It is neither a known builder with arguments that it takes nor a readable strategy.

    """
    if strategy is None:
        return None
    found = strategies.get(strategy)
    if isinstance(found, strategies.Manual):
        return str(Path(found.plan).resolve())
    return str(Path(strategy).resolve()) if isinstance(found, strategies.Strategy) else strategy
