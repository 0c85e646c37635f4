"""Try faults, and write the table of what came of them: `python -m benchmarks.faults --help`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from autodist.testing import EmulatedCluster

from . import records, report
from .catalogue import CARRIERS, FAULTS
from .records import Record
from .schedule import Planned, planned
from .trial import try_faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for; 1 if something was not as it has to be."""
    options = _parse(arguments)
    if options.page:
        report.write_page(options.page, records.read(options.results))
        return 0
    wanted = [FAULTS[name] for name in options.fault or FAULTS]
    if options.anew:
        _forget(options)
    done = records.read(options.results)
    trials = list(planned(wanted, options.carrier or list(CARRIERS), options.hosts, options.repeat, done))
    _Series(trials, options).run()
    found = _selected(options)
    print(json.dumps([dataclasses.asdict(record) for record in found]) if options.json else report.tables(found))
    return int(any(record.bad for record in found))


def _parse(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser("python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), metavar="NAME", help="; ".join(FAULTS))
    parser.add_argument("--carrier", action="append", choices=list(CARRIERS), metavar="NAME", help="; ".join(CARRIERS))
    parser.add_argument("--hosts", type=_numbers, default=[2, 3, 4], help="numbers of hosts; default: 2,3,4")
    parser.add_argument("--repeat", type=int, help="times; default: 20 for each cheap fault, 5 for the others")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side, each on hosts of its own")
    parser.add_argument("--for-minutes", type=float, default=1e6, help="begin nothing more after that time")
    parser.add_argument("--results", type=Path, default=records.RESULTS, help="file of all trials; what it has is kept")
    parser.add_argument("--anew", action="store_true", help="forget earlier trials of what is selected")
    parser.add_argument("--logs", type=Path, help="directory for what the runs with something bad have said")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--page", type=Path, metavar="FILE", help="only write the tables into this page")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _is_selected(record: Record, options: Any) -> bool:
    return (
        record.hosts in options.hosts
        and record.carrier in (options.carrier or CARRIERS)
        and record.fault in (options.fault or FAULTS)
    )


def _selected(options: Any) -> list[Record]:
    return [record for record in records.read(options.results) if _is_selected(record, options)]


def _forget(options: Any) -> None:
    kept = [record for record in records.read(options.results) if not _is_selected(record, options)]
    options.results.unlink(missing_ok=True)
    records.append(options.results, kept)


class _Series:
    """Many trainings, some side by side."""

    def __init__(self, trials: Sequence[Planned], options: Any) -> None:
        self._options = options
        self._count = len(trials)
        self._done = 0
        self._is_over = False
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Planned] = queue.SimpleQueue()
        for trial in trials:
            self._waiting.put(trial)

    def run(self) -> None:
        """Make all of them."""
        with ThreadPoolExecutor(self._options.at_once) as pool:
            works = [pool.submit(self._work) for _ in range(self._options.at_once)]
            try:
                for work in works:
                    work.result()
            finally:
                self._is_over = True  # nothing more begins, after Ctrl-C for one

    def _work(self) -> None:
        with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as scratch:
            cluster, output = None, Path(scratch) / "output"
            while not self._is_over and time.monotonic() - self._began_s < 60 * self._options.for_minutes:
                try:
                    trial = self._waiting.get_nowait()
                except queue.Empty:
                    return
                if cluster is None or cluster.num_hosts != trial.hosts:
                    stack.close()
                    cluster = stack.enter_context(EmulatedCluster(trial.hosts))
                self._keep(trial, try_faults(cluster, trial.carrier, trial.faults, output), output)

    def _keep(self, trial: Planned, found: list[Record], output: Path) -> None:
        with self._lock:
            records.append(self._options.results, found)
            self._done += 1
            spent_s = time.monotonic() - self._began_s
            left_s = spent_s / self._done * (self._count - self._done)
            _say(f"{self._done} of {self._count}, {left_s / 60:.0f} min to go: {trial.carrier}, {trial.hosts} hosts")
            for record in found:
                _say(f"    {record.fault}: {report.words_of(record)}")
            if self._options.logs and any(record.bad for record in found):
                self._options.logs.mkdir(parents=True, exist_ok=True)
                (self._options.logs / f"{os.getpid()}-{self._done}.log").write_bytes(output.read_bytes())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
