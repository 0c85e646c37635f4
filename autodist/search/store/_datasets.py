"""The contents of a trial store as data that simulators learn from."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autodist.graph import TrainingGraph
from autodist.resource_spec import ResourceSpec
from autodist.search.store._drift import steady
from autodist.search.store._retargeting import hardware_of
from autodist.search.store._store import Known, Study, TrialStore
from autodist.search.store._trials import Trial, mean_s
from autodist.simulator import Domain, MeasuredStrategies, accuracy_of
from autodist.wording import counted


@dataclass(frozen=True)
class DataSet:
    """All that was measured of a graph on a cluster.

    Attributes:
        label: What people call the graph.
        graph: Its identity, whatever the batch; see :attr:`~autodist.graph.TrainingGraph.step_id`.
        spec: The cluster's hardware, as JSON.
        cluster: The cluster, in words.
        measured: Each strategy once, with its last measurement.
        repeats: The fraction of the pairs of strategies that the even and the odd steps of their measurements order
            alike. A simulator that ranks better than that was lucky; NaN without two steps of each.
    """

    label: str
    graph: str
    spec: str
    cluster: str
    measured: MeasuredStrategies
    repeats: float


def data_sets(
    store: TrialStore,
    studies: Sequence[Study] | None = None,
    chosen: Callable[[list[Known]], list[Known]] | None = None,
) -> Iterator[DataSet]:
    """The measured trials, by graph and cluster; studies of the same ones together.

    Measurements that were cut short, since a strategy was hopeless, count as well: they are of its first steps.

    Args:
        store: The trials. Those of a data set are read when it is asked for.
        studies: Studies to take, in this order; all by default.
        chosen: Selects the trials of a data set to read; all by default. A data set without trials is left out.
    """
    domains: dict[tuple[str, str, int], list[Study]] = {}
    for study in store.studies() if studies is None else studies:
        hardware = hardware_of(ResourceSpec.from_json(study.spec)).to_json()
        domains.setdefault((study.graph, hardware, study.batch_size), []).append(study)
    for (_, hardware, _), found in domains.items():
        alike = sorted(found, key=lambda study: study.id)
        trials = list(_read(store, alike, chosen))
        if not trials:
            continue
        known = {trial.strategy: trial for trial in trials if trial.step_s is not None}
        first, spec = alike[0], ResourceSpec.from_json(hardware)
        profile = next((study.profile for study in reversed(alike) if study.profile is not None), None)
        floor_s = floor_of(store, alike)
        domain = Domain.of(graph_of(store, first), spec, batch_size=first.batch_size, profile=profile, floor_s=floor_s)
        measured = MeasuredStrategies.of(domain, list(known), [trial.step_s or 0.0 for trial in known.values()])
        about = first.label, first.graph, hardware, _in_words(spec)
        yield DataSet(*about, measured, _repeats(list(known.values())))


def floor_of(store: TrialStore, studies: Sequence[Study]) -> float | None:
    """Seconds of a step in which all workers compute and none communicates, of studies of one graph on one cluster."""
    floor_s = mean_s([one for study in studies for one in store.floor(study)])
    if floor_s is None:
        return None
    # A measurement on a busy machine is no floor if a strategy was faster: none can be.
    return min([floor_s, *(known.step_s for study in studies for known in store.measured(study))])


def _read(
    store: TrialStore, studies: Sequence[Study], chosen: Callable[[list[Known]], list[Known]] | None
) -> Iterator[Trial]:
    wanted = None if chosen is None else chosen([known for study in studies for known in store.measured(study)])
    for study in studies:
        numbers = None if wanted is None else {one.number for one in wanted if one.study == study}
        yield from steady(store.trials(study, numbers))


def _repeats(trials: Sequence[Trial]) -> float:
    several = [trial.steps_s for trial in trials if len(trial.steps_s) > 1]
    even, odd = (np.array([np.median(steps[begin::2]) for steps in several], np.float32) for begin in (0, 1))
    return accuracy_of(even, odd).pairwise if len(several) > 1 else float("nan")


def graph_of(store: TrialStore, study: Study) -> TrainingGraph:
    """The graph of a study."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "graph.zip")
        path.write_bytes(store.graph(study))
        return TrainingGraph.load(path)


def _in_words(spec: ResourceSpec) -> str:
    speeds = sorted({host.bandwidth_gbps for host in spec.hosts})
    rates = f"{speeds[0]:g}" if len(speeds) == 1 else f"{speeds[0]:g} to {speeds[-1]:g}"
    return f"{counted(len(spec.hosts), 'host')}, {rates} Gbit/s"
