"""The trial store: every trial with all that is needed to learn from it later, in one SQLite file."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shlex
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodist.carriers import names
from autodist.errors import AutoDistError, StoreError
from autodist.search.space import Rule
from autodist.search.store._shared_disks import is_on_shared_disk
from autodist.search.store._trial_rows import (
    FLOOR,
    Row,
    counted_of,
    json_of,
    measurement_rows,
    measurements_of,
    rules_of,
    text_of,
    trial_of,
    trial_row,
)
from autodist.search.store._trials import Failure, Measurement, Trial
from autodist.simulator import Profile
from autodist.strategies import Strategy

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

_VERSION = 5
_ANOTHER = "give another file, by `--store FILE`"
_WAIT_S = 10.0
_SCHEMA = """
CREATE TABLE graphs (key TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE studies (
    id INTEGER PRIMARY KEY, graph TEXT NOT NULL REFERENCES graphs, spec TEXT NOT NULL, batch_size INTEGER NOT NULL,
    label TEXT NOT NULL, begun REAL NOT NULL, rules TEXT NOT NULL DEFAULT '[]', profile TEXT, step TEXT
);
CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies, number INTEGER NOT NULL, strategy TEXT NOT NULL, origin TEXT NOT NULL,
    predicted REAL, steps TEXT, warm_up INTEGER, prepared REAL, reason TEXT, message TEXT, ended REAL NOT NULL,
    PRIMARY KEY (study, number)
) WITHOUT ROWID;
"""
_MEASUREMENTS = """
CREATE TABLE measurements (
    study INTEGER NOT NULL REFERENCES studies, number INTEGER NOT NULL, round INTEGER NOT NULL, steps TEXT NOT NULL,
    warm_up INTEGER, prepared REAL, ended REAL NOT NULL, version TEXT NOT NULL,
    PRIMARY KEY (study, number, round)
) WITHOUT ROWID;
"""
"""The table of all measurements. The first one of a trial is also in the trial's row, for older versions."""
_OF_MEASUREMENT = "round, steps, warm_up, prepared, ended, version"
_MIGRATIONS = {
    1: ["ALTER TABLE studies ADD COLUMN rules TEXT NOT NULL DEFAULT '[]'"],
    2: ["ALTER TABLE studies ADD COLUMN profile TEXT"],
    3: ["ALTER TABLE graphs RENAME COLUMN fingerprint TO key", "ALTER TABLE studies ADD COLUMN step TEXT"],
    4: [_MEASUREMENTS],
}
"""By version, what makes the next one of it. Processes of an older version that have the file open go on writing.

Up to version 3 a graph was identified only by its variables. Studies of that time keep this key as their identity. It
equals no identity of today, because it is not certain which step their trials belong to.
"""


@dataclass(frozen=True)
class Study:
    """One search: a graph on a cluster, of which trials are stored.

    Attributes:
        id: Its number in the store.
        graph: Identity of the graph, whatever its batch; see :attr:`~autodist.graph.TrainingGraph.step_id`.
        spec: The cluster, as JSON.
        batch_size: Examples in the global batch.
        label: What people call it.
        rules: What is pinned and forbidden.
        profile: Profile of the step, as it was measured; None if it was not.
        key: The graph's key in the store.
    """

    id: int
    graph: str
    spec: str
    batch_size: int
    label: str
    rules: tuple[Rule, ...] = ()
    profile: Profile | None = None
    key: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Known:
    """A measured trial, as far as it is known without its strategy.

    Attributes:
        study: Its study.
        number: Number of the trial there.
        step_s: Seconds of a step.
        is_confirmed: Whether it was measured again.
        version: Version of AutoDist when it was measured; empty if that is not known.
        size: Size of the strategy's text, in characters.
    """

    study: Study
    number: int
    step_s: float
    is_confirmed: bool
    version: str
    size: int


class TrialStore:
    """Trials in a file, from which nothing is lost: each is whole on the disk when :meth:`add` returns.

    Several processes may read while one writes; others that want to write wait for it. On a disk that several machines
    have, readers wait as well. A file of an older version is brought to this one when it is opened.

    Args:
        path: The file; made if it is missing.

    Raises:
        StoreError: It can't be opened, is no trial store, is damaged, or was written by a newer version.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, TrialStore(f"{folder}/trials.db") as store:
        ...     store.studies()
        []
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        self._version()  # first, so that a file that is not a trial store is left unchanged
        is_shared = is_on_shared_disk(self.path)  # other machines can't share memory with this one
        self._connection.execute(f"PRAGMA journal_mode={'DELETE' if is_shared else 'WAL'}")
        self._connection.execute("PRAGMA synchronous=FULL")
        with self._transaction():
            version = self._version()
            if version == 0:
                self._bring_to_version(f"{_SCHEMA}{_MEASUREMENTS}".split(";"))
            elif version != _VERSION:
                self._bring_to_version(chain.from_iterable(_MIGRATIONS[older] for older in range(version, _VERSION)))

    def _version(self) -> int:
        """The version of the file; 0 for an empty one."""
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version == _VERSION or version in _MIGRATIONS or (version == 0 and tables == 0):
            return version
        is_newer = version > _VERSION
        raise StoreError(
            f"`{self.path}` is {f'a trial store of version {version}' if is_newer else 'no trial store'}",
            hint="upgrade AutoDist" if is_newer else "give another file",
        )

    def _bring_to_version(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version={_VERSION}")

    def study(
        self,
        graph: bytes,
        step_id: str,
        spec: ResourceSpec,
        batch_size: int,
        label: str,
        rules: Sequence[Rule] = (),
        profile: Profile | None = None,
    ) -> Study:
        """Begin to store the trials of a graph on a cluster.

        Args:
            graph: G, as :meth:`~autodist.graph.TrainingGraph.save` writes it.
            step_id: Identity of the graph, whatever its batch.
            spec: D.
            batch_size: Examples in the global batch.
            label: What people call it, such as the script's name.
            rules: What is pinned and forbidden.
            profile: Profile of the step, if it was measured.
        """
        with self._told(), self._transaction():
            key = hashlib.sha256(graph).hexdigest()  # of the content: every study has its own graph
            self._connection.execute("INSERT INTO graphs VALUES (?, ?) ON CONFLICT DO NOTHING", (key, graph))
            columns = "graph, spec, batch_size, label, begun, rules, profile, step"
            cursor = self._connection.execute(
                f"INSERT INTO studies ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (key, spec.to_json(), batch_size, label, time.time(), text_of(rules), json_of(profile), step_id),
            )
        assert cursor.lastrowid is not None
        return Study(cursor.lastrowid, step_id, spec.to_json(), batch_size, label, tuple(rules), profile, key)

    def revised(self, study: Study, rules: Sequence[Rule], profile: Profile | None) -> Study:
        """Replace the rules and the profile of a study that is resumed."""
        changed = (text_of(rules), json_of(profile), study.id)
        with self._told(), self._transaction():
            self._connection.execute("UPDATE studies SET rules = ?, profile = ? WHERE id = ?", changed)
        return dataclasses.replace(study, rules=tuple(rules), profile=profile)

    def studies(self) -> list[Study]:
        """All studies, the oldest first."""
        with self._told():
            columns = "id, coalesce(step, graph), spec, batch_size, label, rules, profile, graph"
            rows = self._connection.execute(f"SELECT {columns} FROM studies ORDER BY id")
            return [_study(*row) for row in rows]

    def graph(self, study: Study) -> bytes:
        """The graph of a study, for :meth:`~autodist.graph.TrainingGraph.load`."""
        with self._told():
            row = self._connection.execute("SELECT content FROM graphs WHERE key = ?", (study.key,))
            content: bytes = row.fetchone()[0]
            return content

    def add(self, study: Study, *trials: Trial) -> None:
        """Store trials, all of them or none; for trials that are stored already, what was measured since.

        No measurement is overwritten. A failure is replaced by a measurement.

        Raises:
            StoreError: There is another strategy under the number of a trial.
        """
        with self._told(), self._transaction():
            for trial in trials:
                if not self._is_known(study, trial):
                    self._insert("trials", "REPLACE", [(study.id, *trial_row(trial), time.time())])
                self._insert("measurements", "IGNORE", self._rows_of(study, trial.number, trial.outcome, *trial.again))

    def _is_known(self, study: Study, trial: Trial) -> bool:
        """Whether the first measurement of a trial is stored."""
        query = "SELECT strategy, steps FROM trials WHERE study = ? AND number = ?"
        known = self._connection.execute(query, (study.id, trial.number)).fetchone()
        if known is not None and Strategy.from_json(known[0]).id != trial.strategy.id:
            raise StoreError(
                f"trial {trial.number} of study {study.id} in `{self.path}` is of another strategy",
                hint="another search goes on with the same study: wait for its end, or begin one of its own",
            )
        return known is not None and known[1] is not None

    def bring(self, study: Study, store: TrialStore, there: Study, numbers: Collection[int]) -> None:
        """Store trials of a study of another store, unread."""
        of_these = f"study = ? AND number IN ({', '.join('?' * len(numbers))})"
        for table in ("trials", "measurements"):
            with store._told():
                query = f"SELECT * FROM {table} WHERE {of_these}"
                rows = store._connection.execute(query, (there.id, *numbers)).fetchall()
            with self._told(), self._transaction():
                self._insert(table, "IGNORE", [(study.id, *row[1:]) for row in rows])

    def _insert(self, table: str, otherwise: str, rows: Sequence[Row]) -> None:
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT OR {otherwise} INTO {table} VALUES ({places})", rows)

    def trials(self, study: Study, numbers: Collection[int] | None = None) -> list[Trial]:
        """The trials of a study, in the order of their numbers; only these if numbers are given."""
        columns = "number, strategy, origin, predicted, steps, warm_up, prepared, reason, message"
        some = "" if numbers is None else f" AND number IN ({', '.join('?' * len(numbers))})"
        query = f"SELECT {columns} FROM trials WHERE study = ?{some} ORDER BY number"
        of_trial = f"SELECT {_OF_MEASUREMENT} FROM measurements WHERE study = ? AND number = ?"
        with self._told():
            rows = self._connection.execute(query, (study.id, *(numbers or ()))).fetchall()
            return [
                trial_of(measurements_of(self._connection.execute(of_trial, (study.id, row[0])).fetchall()), *row)
                for row in rows
            ]

    def measured(self, study: Study) -> list[Known]:
        """The facts about a study's measured trials without reading their strategies, which takes longer."""
        query = "SELECT number, steps, length(strategy) FROM trials WHERE study = ? AND steps NOT NULL ORDER BY number"
        of_study = f"SELECT number, {_OF_MEASUREMENT} FROM measurements WHERE study = ?"
        with self._told():
            taken: dict[int, list[Any]] = {}
            for number, *row in self._connection.execute(of_study, (study.id,)):
                taken.setdefault(number, []).append(tuple(row))
            rows = self._connection.execute(query, (study.id,)).fetchall()
            return [
                Known(study, number, *counted_of(measurements_of(taken.get(number, ())), steps), size)
                for number, steps, size in rows
            ]

    def add_floor(self, study: Study, *measured: Measurement) -> None:
        """Add measurements of steps in which all workers computed and none communicated."""
        with self._told(), self._transaction():
            query = "SELECT count(*) FROM measurements WHERE study = ? AND number = ?"
            [count] = self._connection.execute(query, (study.id, FLOOR)).fetchone()
            numbered = [dataclasses.replace(one, round=count + k) for k, one in enumerate(measured)]
            self._insert("measurements", "IGNORE", self._rows_of(study, FLOOR, *numbered))

    def floor(self, study: Study) -> tuple[Measurement, ...]:
        """The measurements stored by :meth:`add_floor`."""
        query = f"SELECT {_OF_MEASUREMENT} FROM measurements WHERE study = ? AND number = ?"
        with self._told():
            return measurements_of(self._connection.execute(query, (study.id, FLOOR)).fetchall())

    @staticmethod
    def _rows_of(study: Study, number: int, *measurements: Measurement | Failure) -> list[Row]:
        return [(study.id, *row) for row in measurement_rows(number, *measurements)]

    def carriers(self, study: Study) -> dict[str, int]:
        """By name of each carrier in measured trials of a study, the number of one of these trials."""
        query = "SELECT number FROM trials WHERE study = ? AND steps NOT NULL AND instr(strategy, ?) LIMIT 1"
        with self._told():
            found = {name: self._connection.execute(query, (study.id, f'"{name}"')).fetchone() for name in names()}
        return {name: row[0] for name, row in found.items() if row is not None}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite rolls back by itself where the disk is full
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn errors of SQLite into errors of AutoDist."""
        try:
            yield
        except StoreError:
            raise
        except AutoDistError as error:  # about the stored content, which may be of a newer version
            raise StoreError(
                f"the trial store `{self.path}` can't be read: {error.message}", hint=error.hint
            ) from error
        except sqlite3.OperationalError as error:
            is_locked = "locked" in str(error)
            hint = "another search writes into it: end that one, or give another file" if is_locked else _ANOTHER
            raise StoreError(f"the trial store `{self.path}` can't be used: {error}", hint=hint) from error
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            readable = f"what can be read of it: `sqlite3 {shlex.quote(str(self.path))} .recover`"
            hint = f"{readable}; meanwhile {_ANOTHER}"
            raise StoreError(f"the trial store `{self.path}` is damaged: {error}", hint=hint) from error
        except OSError as error:
            raise StoreError(f"the trial store `{self.path}` can't be made: {error.strerror}") from error


def _study(
    number: int, graph: str, spec: str, batch_size: int, label: str, rules: str, profile: str | None, key: str
) -> Study:
    known = None if profile is None else Profile.from_json(profile)
    return Study(number, graph, spec, batch_size, label, rules_of(rules), known, key)
