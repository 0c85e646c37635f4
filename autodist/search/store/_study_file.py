"""Studies as small files: to publish trials, to take them to other machines, and to learn from those of others."""

from __future__ import annotations

import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from autodist.documents import whole_file
from autodist.errors import AutoDistError, StoreError
from autodist.graph import without_directories
from autodist.resource_spec import ResourceSpec
from autodist.search.space import Rule
from autodist.search.store._merging import news_of, study_like
from autodist.search.store._retargeting import without_access
from autodist.search.store._store import Study, TrialStore
from autodist.search.store._trials import Failure, Measurement, Trial
from autodist.simulator import Profile
from autodist.strategies import Strategy

StudyFile: TypeAlias = "tuple[Study, ResourceSpec, bytes, list[Trial], list[Measurement]]"
_VERSION = 1
_STORE = b"SQLite format 3\0"
_BROKEN = (
    ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile, lzma.LZMAError, zlib.error,
)  # fmt: skip
"""The errors of `zipfile` and `json` for damaged files."""


def export_studies(store: TrialStore, studies: Sequence[Study], path: str | os.PathLike[str]) -> None:
    """Write studies with their graphs and all their trials into one file, a ZIP archive of texts.

    It has the names of the scripts' files, but not where they are on this machine, and neither logins nor environment
    variables of the cluster.

    Raises:
        GraphError: A graph is damaged.
        StoreError: The file can't be written.
    """
    try:
        with whole_file(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_LZMA) as archive:
            for number, study in enumerate(studies):
                lines = [json.dumps(_plain(trial)) for trial in store.trials(study)]
                archive.writestr(f"{number}/study.json", _about(study, store.floor(study)))
                archive.writestr(f"{number}/graph.zip", without_directories(store.graph(study)))
                archive.writestr(f"{number}/trials.jsonl", "\n".join(lines))
    except OSError as error:
        raise StoreError(f"the studies can't be written to `{path}`: {error.strerror}") from error


def import_studies(store: TrialStore, *paths: str | os.PathLike[str]) -> list[Study]:
    """Add studies to a store, and return them as they are there; of all files, or of none.

    A study that the store already has, because both files have a common origin, gets the trials and measurements that
    it lacks.

    Args:
        store: The store that gets them.
        paths: Files that :func:`export_studies` has written, or other stores.

    Raises:
        StoreError: A file can't be read, or holds no studies.
    """
    return add_studies(store, read_studies(*paths))


def read_studies(*paths: str | os.PathLike[str]) -> list[StudyFile]:
    """The studies of files, for :func:`add_studies`: so a mistake among the files is found before a store is made.

    Raises:
        StoreError: A file can't be read, or holds no studies.
    """
    return [one for path in paths for one in _all_of(path)]


def add_studies(store: TrialStore, found: Sequence[StudyFile]) -> list[Study]:
    """Add studies of files to a store; see :func:`import_studies`."""
    return [_add(store, *one) for one in found]


def _all_of(path: str | os.PathLike[str]) -> list[StudyFile]:
    if _is_store(path):
        with TrialStore(path) as other:
            return [
                (
                    study,
                    ResourceSpec.from_json(study.spec),
                    other.graph(study),
                    other.trials(study),
                    [*other.floor(study)],
                )
                for study in other.studies()
            ]
    try:
        with zipfile.ZipFile(Path(path)) as archive:
            count = sum(name.endswith("/study.json") for name in archive.namelist())
            return [_read(archive, number) for number in range(count)]
    except OSError as error:
        raise StoreError(f"the studies `{path}` can't be read: {error.strerror or error}") from error
    except (*_BROKEN, AutoDistError) as error:
        hint = "make a file of studies by `autodist trials --export FILE`"
        raise StoreError(f"`{path}` holds no studies: {error}", hint=hint) from error


def _is_store(path: str | os.PathLike[str]) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_STORE)) == _STORE
    except OSError:
        return False


def _about(study: Study, floor: Sequence[Measurement]) -> str:
    spec = without_access(ResourceSpec.from_json(study.spec)).to_json()
    about = {"version": _VERSION, "graph": study.graph, "spec": json.loads(spec)}
    about |= {"batch_size": study.batch_size, "label": study.label, "rules": [asdict(rule) for rule in study.rules]}
    profile = None if study.profile is None else json.loads(study.profile.to_json())
    about |= {"floor": [asdict(one) for one in floor]} if floor else {}
    return json.dumps(about | {"profile": profile}, indent=2)


def _read(archive: zipfile.ZipFile, number: int) -> StudyFile:
    about = json.loads(archive.read(f"{number}/study.json"))
    if about["version"] != _VERSION:
        raise ValueError(f"it is of version {about['version']}, allowed: {_VERSION}")
    spec = ResourceSpec.from_json(json.dumps(about["spec"]))
    rules = tuple(Rule(**rule) for rule in about.get("rules", ()))
    profile = Profile.from_json(json.dumps(about["profile"])) if about.get("profile") else None
    study = Study(number, about["graph"], spec.to_json(), about["batch_size"], about["label"], rules, profile)
    floor = [_measurement(one) for one in about.get("floor", ())]
    lines = archive.read(f"{number}/trials.jsonl").decode().splitlines()
    return study, spec, archive.read(f"{number}/graph.zip"), [_trial(json.loads(line)) for line in lines], floor


def _add(
    store: TrialStore,
    study: Study,
    spec: ResourceSpec,
    graph: bytes,
    trials: Sequence[Trial],
    floor: Sequence[Measurement],
) -> Study:
    known = study_like(store, study, spec, trials)
    if known is not None:
        store.add(known, *news_of(store.trials(known), trials))
        before = store.floor(known)
        store.add_floor(known, *(one for one in floor if one.steps_s not in {b.steps_s for b in before}))
        return known
    added = store.study(graph, study.graph, spec, study.batch_size, study.label, study.rules, study.profile)
    store.add(added, *trials)
    store.add_floor(added, *floor)
    return added


def _plain(trial: Trial) -> dict[str, object]:
    outcome = trial.outcome
    row: dict[str, object] = {"number": trial.number, "origin": trial.origin, "predicted": trial.predicted}
    if isinstance(outcome, Measurement):
        row |= asdict(outcome)
    else:
        row |= {"reason": outcome.reason, "message": outcome.message}
    if trial.again:
        row["again"] = [asdict(one) for one in trial.again]
    return row | {"strategy": json.loads(trial.strategy.to_json())}


def _trial(row: dict[str, object]) -> Trial:
    failure = "steps_s" not in row
    outcome = Failure(row["reason"], row["message"]) if failure else _measurement(row)  # type: ignore[arg-type]
    strategy = Strategy.from_json(json.dumps(row["strategy"]))
    again = tuple(_measurement(one) for one in row.get("again", ()))  # type: ignore[attr-defined]
    return Trial(row["number"], strategy, outcome, row["origin"], row["predicted"], again)  # type: ignore[arg-type]


def _measurement(row: Mapping[str, Any]) -> Measurement:
    """Read a measurement from its fields in a file; older versions wrote neither its time nor AutoDist's version."""
    taken = tuple(row["steps_s"]), row["warm_up"], row["prepared_s"]
    return Measurement(*taken, row.get("round", 0), row.get("version", ""), row.get("ended_s", 0.0))
