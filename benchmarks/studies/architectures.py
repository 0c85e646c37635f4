"""Figure 7.6: parameter servers beside all-reduce, over models and clusters."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from ._base import Findings, Line, Panel, Study
from ._trials import CLUSTERS, MODELS, name_of, searched

__all__ = ["STUDIES"]

_SYSTEMS = {
    "PS1": "PSLoadBalancing",
    "PS2": "PartitionedPS",
    "AR": "AllReduce(communicator='tcp')",
    "AR, Horovod": "AllReduce(communicator='horovod')",
}
_FILES = {"slow": "trials/version_2/slow.zip", "few": "trials/version_2/few.zip"}


class Architectures(Study):
    """Step times by architecture."""

    name = "figure-7.6"
    title = "Parameter servers, whole (PS1) and partitioned (PS2), beside all-reduce (AR)"
    needs = "seconds"

    def run(self) -> Findings:
        """Evaluate published trials."""
        rows, panels = [], []
        for cluster, file in _FILES.items():
            found = _step_s(file)
            for model, times in found.items():
                fastest = min(times, key=lambda system: times[system])
                rows.append((CLUSTERS[cluster], MODELS[model], *(f"{1e3 * t:.0f}" for t in times.values()), fastest))
            lines = tuple(
                Line(system, tuple(MODELS[model] for model in found), tuple(1e3 * of[system] for of in found.values()))
                for system in _SYSTEMS
            )
            panels.append(Panel(f"hosts: {CLUSTERS[cluster]}", "", "ms per step", lines, is_log_y=True))
        columns = ("Hosts", "Model", *(f"{system}, ms" for system in _SYSTEMS), "fastest")
        return Findings(columns, tuple(rows), tuple(panels))


STUDIES: tuple[type[Study], ...] = (Architectures,)


def _step_s(file: str) -> Mapping[str, Mapping[str, float]]:
    """By model and system, the mean of what searches have measured."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in searched(file):
        for system, builder in _SYSTEMS.items():
            found.setdefault(name_of(one.study.label), {}).setdefault(system, []).append(one.baselines[builder])
    return {
        model: {system: statistics.fmean(times) for system, times in found[model].items()}
        for model in MODELS
        if model in found
    }
