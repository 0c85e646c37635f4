"""Figure 7.7: what it brings that all-reduces of neighbouring variables travel together."""

from __future__ import annotations

import re
import statistics

from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce

from ._base import Findings, Line, Panel, Study
from ._trials import CLUSTERS, MODELS, name_of, searched

__all__ = ["STUDIES"]

_FILE = "studies/chunks.zip"
_CHUNK = re.compile(r"AllReduce\(communicator='tcp'(?:, chunk_size=(\d+))?\)$")


class Merging(Study):
    """Step times by chunk."""

    name = "figure-7.7"
    title = "All-reduces of so many neighbouring variables at once"
    needs = "seconds"

    def run(self) -> Findings:
        """Evaluate published trials."""
        found = _step_s()
        chunks = sorted({chunk for times in found.values() for chunk in times})
        rows = []
        for (cluster, model), times in found.items():
            cells = [f"{1e3 * times[chunk]:.0f}" if chunk in times else "" for chunk in chunks]
            best = min(times, key=lambda chunk: times[chunk])
            rows.append(
                (CLUSTERS[cluster], MODELS[model], *cells, str(best), f"{max(times.values()) / times[best]:.2f}")
            )
        panels = tuple(
            Panel(
                f"hosts: {CLUSTERS[cluster]}",
                "variables at once",
                "times the fastest",
                tuple(_line(MODELS[model], times) for (where, model), times in found.items() if where == cluster),
                is_log_x=True,
            )
            for cluster in dict.fromkeys(cluster for cluster, _ in found)
        )
        columns = ("Hosts", "Model", *(f"{chunk}, ms" for chunk in chunks), "best", "slowest over fastest")
        return Findings(columns, tuple(rows), panels)


STUDIES: tuple[type[Study], ...] = (Merging,)


def _line(name: str, times: dict[int, float]) -> Line:
    fastest = min(times.values())
    return Line(name, tuple(map(float, sorted(times))), tuple(times[chunk] / fastest for chunk in sorted(times)))


def _step_s() -> dict[tuple[str, str], dict[int, float]]:
    """By cluster and model, what a step takes with each number of variables at once."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for one in searched(_FILE):
        cluster = "few" if len(ResourceSpec.from_json(one.study.spec).hosts) == 2 else "slow"
        for name, trial in one.known.items():
            told = _CHUNK.match(name)
            if told is not None:
                chunk = int(told[1] or AllReduce().chunk_size)
                times = found.setdefault((cluster, name_of(one.study.label)), {}).setdefault(chunk, [])
                times += [measurement.step_s for measurement in (trial.outcome, *trial.again)]
    return {
        place: {chunk: statistics.fmean(times) for chunk, times in by_chunk.items()}
        for place, by_chunk in found.items()
    }
