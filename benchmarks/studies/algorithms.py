"""Table 8.2: random search beside genetic search, by all that they measure."""

from __future__ import annotations

import statistics

from ._base import Findings, Study
from ._simulated_search import simulated_search

__all__ = ["STUDIES"]

_TRIALS = 200
_THESIS = {"random": ("1070", "630", "600", "2340"), "genetic": ("670", "30", "640", "790")}


class Algorithms(Study):
    """How fast the strategies are that searchers find."""

    name = "table-8.2"
    title = "Step times of 200 strategies for VGG, by searcher"
    needs = "a minute"

    def run(self) -> Findings:
        """Search in simulation."""
        rows = []
        for searcher in ("random", "genetic", "local"):
            found, _ = simulated_search("vgg", "slow", _TRIALS, 0, searcher=searcher)
            times = [1e3 * trial.step_s for trial in found if trial.step_s is not None]
            cells = statistics.fmean(times), statistics.stdev(times), min(times), max(times)
            rows.append((searcher, *(f"{cell:.0f}" for cell in cells), *_THESIS.get(searcher, ("",) * 4)))
        columns = ("mean", "deviation", "least", "most")
        return Findings(
            ("Searcher", *(f"{name}, ms" for name in columns), *(f"thesis: {name}" for name in columns)), tuple(rows)
        )


STUDIES: tuple[type[Study], ...] = (Algorithms,)
