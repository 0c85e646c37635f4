"""Many cases in few launches: those of one strategy and one layout share the start of their workers."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.runtime import Recorder
from autodist.testing import Certificate, compare_recordings

from .data import STEPS

SCRIPT = Path(__file__).with_name("cases.py")
STRATEGIES = (
    "PSLoadBalancing(communicator='tcp')",
    "AllReduce(communicator='horovod')",
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='tcp')",
    "PartitionedPS(min_shard_bytes=0, communicator='tcp')",
)
OWN = "own"
"""The strategy of a place whose cases bring their own."""

LAYOUTS = ((1, 2), (2, 1), (2, 2), (3, 1))
"""Workers and replicas of each. The last batch of every case is uneven on all but one of them."""


@dataclass(frozen=True)
class Place:
    """A strategy on a layout; the reference has neither."""

    strategy: str | None
    workers: int = 1
    replicas: int = 1
    more_on_last: int = 0
    """How many more replicas the last worker has."""
    label: str = ""
    """Tells places apart whose cases must not share a start of the workers."""

    @property
    def spec(self) -> ResourceSpec:
        if self.strategy is None:
            return ResourceSpec.local()
        *others, last = ResourceSpec.local(workers=self.workers, cpus=self.replicas).hosts
        return ResourceSpec((*others, replace(last, cpus=last.cpus + self.more_on_last)))


QUICK_SERVERS = Place(OWN, 2, label="quick servers")
QUICK_COLLECTIVES = Place(OWN, 2, more_on_last=1, label="quick collectives")
"""Launches of two workers that tests which are not slow share: TensorFlow's collectives can't run beside servers."""


def quick_place(strategy: str) -> tuple[str, Place]:
    """What follows the names of cases that such a launch runs under a strategy, and the launch."""
    place = QUICK_COLLECTIVES if strategy.startswith("AllReduce") else QUICK_SERVERS
    return f"@{strategy.replace(' ', '')}", place


def reference_of(case: str) -> str:
    """The case on one device: what follows an "@" says how it is distributed."""
    return case.partition("@")[0]


class Runs:
    """Recordings of cases by place, made when they are asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._failures: dict[tuple[Place, str], str] = {}
        self._wanted: dict[Place, list[str]] = {}
        self._done: set[tuple[Place, str]] = set()
        self._launches = 0

    def want(self, case: str, place: Place) -> None:
        """Note that a case will be asked for: it is run with the others of its place."""
        for wanted, name in ((place, case), (Place(None), reference_of(case))):
            cases = self._wanted.setdefault(wanted, [])
            if name not in cases:
                cases.append(name)

    def certify(self, case: str, place: Place, tolerance: float = 1e-5) -> Certificate:
        """Compare a case's run at a place with the single-device run."""
        return compare_recordings(
            self.recording(reference_of(case), Place(None)), self.recording(case, place), tolerance
        )

    def refusal(self, case: str, place: Place) -> str | None:
        """In which words a case is refused at a place; None if it is trained."""
        self.want(case, place)
        if (place, case) not in self._done:
            self._run_all([c for c in self._wanted[place] if (place, c) not in self._done], place)
        refused = self._directory_of(place) / case / "refused"
        return refused.read_text() if refused.is_file() else None

    def recording(self, case: str, place: Place) -> Path:
        """The directory that holds what a case did at a place."""
        failure = self.refusal(case, place) or self._failures.get((place, case))
        assert failure is None, f"{case} failed: {failure}"
        return self._directory_of(place) / case

    def _directory_of(self, place: Place) -> Path:
        return self._directory / re.sub(r"\W+", "_", "_".join(map(str, astuple(place))))

    def _run_all(self, cases: list[str], place: Place) -> None:
        """Run cases one after another; one that fails ends its launch, and the next launch begins behind it."""
        while cases:
            failed = self._launch(cases, place)
            position = len(cases) if failed is None else cases.index(failed) + 1
            self._done |= {(place, case) for case in cases[:position]}
            cases = cases[position:]

    def _launch(self, cases: list[str], place: Place) -> str | None:
        """The case that failed, if one did."""
        recorder = Recorder(self._directory_of(place), STEPS, is_reference=place.strategy is None)
        self._launches += 1
        run_dir = self._directory / f"run_{self._launches}"
        arguments = ["--separately", *(part for case in cases for part in ("--case", case))]
        strategy = None if place.strategy == OWN else place.strategy
        result = LocalLauncher().launch(
            Job(SCRIPT, place.spec, tuple(arguments), strategy, env=recorder.to_environ(), run_dir=run_dir)
        )
        if result.exit_code == 0:
            return None
        log = (run_dir / "logs" / "0.log").read_text() if (run_dir / "logs" / "0.log").is_file() else ""
        begun = re.findall(r"^case (\S+)$", log, re.MULTILINE)
        failed = begun[-1] if begun else cases[0]
        self._failures[place, failed] = f"{result.failure}\n{log[-3000:]}"
        return failed
