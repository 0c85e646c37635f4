"""Trials: a training is started, faults happen to it, and what comes of them is compared with what has to."""

from __future__ import annotations

import dataclasses
import datetime
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autodist.testing import EmulatedCluster

from . import course
from .catalogue import CARRIERS, Expected, Fault
from .records import Record
from .training_run import TrainingRun, Unending, first_named, wait

__all__ = ["try_faults"]

_STEPS_BEFORE = 8
_STEPS_AFTER = 5
_STEPS_IN_ALL = 60
"""Of a training that is started again, for each time."""
_LEFT_WITHIN_S = 60.0  # a host that was cut off ends its workers after --host-timeout and the grace time
_DIFFERENCE = 1e-5
_RESTART = re.compile(r"restart \d+ of \d+")
_SAVED = ("_trainable_variables/0", "_iterations")


def try_faults(cluster: EmulatedCluster, carrier: str, faults: Sequence[Fault], output: Path) -> list[Record]:
    """What comes of some faults in one training: all but the last are of those after which it can go on.

    Args:
        cluster: The hosts, which nothing else uses.
        carrier: What moves the values between workers.
        faults: In their order; those after one that was not borne as it has to be are left out.
        output: The file for what the run says.

    """
    run = TrainingRun(cluster, CARRIERS[carrier], output)
    records: list[Record] = []
    try:
        for fault in faults:
            fault.prepare(run)
        run.start(*_words(faults))
        for fault in faults:
            records.append(_Trial(run, fault, carrier, is_last=fault is faults[-1]).record())
            if records[-1].bad:
                break
    finally:
        run.close()
    return records


def _words(faults: Sequence[Fault]) -> tuple[list[str], list[str]]:
    """Options of `autodist run`, and arguments of the script."""
    options = [option for fault in faults for option in fault.options]
    arguments = ["--every", str(min(fault.every for fault in faults))]
    restarts = sum(fault.expected.outcome == "restarts" for fault in faults)
    if restarts:
        options += ["--max-restarts", str(restarts + 2)]
        arguments += ["--steps", str(restarts * _STEPS_IN_ALL)]
    return options, arguments


class _Trial:
    """One fault of a training that has been started, and may have been started again."""

    def __init__(self, run: TrainingRun, fault: Fault, carrier: str, is_last: bool) -> None:
        self._run = run
        self._fault = fault
        self._is_last = is_last
        self._since = 0
        self._record = Record(fault.name, carrier, len(run.hosts), None, made=datetime.date.today().isoformat())
        self._bad: list[str] = []

    def record(self) -> Record:
        """Have it happen, and say what came of it."""
        expected = self._fault.expected
        try:
            if not self._fault.at_start:
                self._run.takes(_STEPS_BEFORE)
                self._since = len(self._run.told)
            began_s = time.monotonic()
            self._fault.do(self._run)
            {"goes on": self._goes_on, "ends": self._ends, "restarts": self._restarts}[expected.outcome](began_s)
        except Unending as error:
            self._bad.append(str(error))
            self._run.show_stacks()
        self._check_words(expected)
        if self._is_last and not self._bad:
            self._check_what_is_left()
            self._check_weights()
        return dataclasses.replace(self._record, bad=tuple(self._bad))

    def _keep(self, **fields: float | int | None) -> None:
        self._record = dataclasses.replace(self._record, **fields)  # type: ignore[arg-type]

    # --- the three outcomes

    @property
    def _told(self) -> str:
        """What the console has shown since the fault."""
        return self._run.told[self._since :]

    def _goes_on(self, began_s: float) -> None:
        """Count from when the fault is over, except that of a start: that is over when all take steps."""
        if not self._fault.at_start:
            began_s = time.monotonic()
        steps = self._run.steps() + _STEPS_AFTER
        self._run.comes_to(steps, self._fault.expected.within_s)
        self._keep(seconds=time.monotonic() - began_s)
        if _RESTART.search(self._told):
            self._bad.append("it was started again")

    def _ends(self, began_s: float) -> None:
        code = self._run.end(self._fault.expected.within_s)
        self._keep(seconds=time.monotonic() - began_s, exit_code=code)
        self._check_end(code)

    def _restarts(self, began_s: float) -> None:
        wait(lambda: self._run.has_ended or _RESTART.search(self._told), "a restart", self._fault.expected.within_s)
        if self._run.has_ended:
            raise Unending(f"it ended with {self._run.process.returncode}, and was not started again")
        self._keep(seconds=time.monotonic() - began_s)
        self._run.begins_anew()
        self._run.comes_to(1)
        self._keep(resumed_s=time.monotonic() - began_s)
        if self._is_last:
            code = self._run.end(120.0)
            self._keep(exit_code=code)
            self._check_end(code)
        else:
            self._check_blame()

    # --- what has to hold

    def _check_end(self, code: int) -> None:
        expected = self._fault.expected
        if code != expected.exit_code:
            self._bad.append(f"the exit code is {code}, not {expected.exit_code}")
        self._check_blame()

    def _check_blame(self) -> None:
        expected = self._fault.expected
        if expected.blamed is not None:
            host = getattr(self._run, expected.blamed)
            named = first_named(self._told)
            if named != (self._run.rank_of(host), host):
                self._bad.append(f"{named or 'nobody'} is named, not worker {self._run.rank_of(host)} on {host}")

    def _check_words(self, expected: Expected) -> None:
        pattern = expected.says.replace("{host}", self._run.another)
        pattern = pattern.replace("{rank}", str(self._run.rank_of(self._run.another)))
        if not re.search(pattern, self._told):
            self._bad.append(f"`{pattern}` is not said")

    def _check_what_is_left(self) -> None:
        self._run.heal_pair()
        left = self._run.left(_LEFT_WITHIN_S)
        self._bad += [f"left on {what}" for what in left]

    def _check_weights(self) -> None:
        """Those at the end, where there is one, and those of the newest checkpoint, are of undisturbed training."""
        for host in filter(self._run.is_up, self._run.hosts):
            for path in (self._run.home(host) / "out").glob("*.npz"):
                kept = np.load(path)
                self._compare(f"the weights of {host}", kept["weights"], int(kept["steps"]))
        folder = self._run.home(self._run.chief) / "checkpoints"
        if not any(folder.glob("*.index")):
            if not self._fault.at_start:
                self._bad.append("there is no checkpoint")
            return
        self._compare("the newest checkpoint", *_newest_checkpoint(folder))

    def _compare(self, what: str, weights: object, steps: int) -> None:
        wanted = course.weights_after(steps)
        difference = float(np.abs(weights - wanted).max() / np.abs(wanted).max())
        if not difference < _DIFFERENCE:
            self._bad.append(f"{what} after {steps} steps differ by {difference:.1g}")


def _newest_checkpoint(folder: Path) -> tuple[object, int]:
    """Its weights, and after how many steps they were written."""
    import tensorflow as tf

    newest = max(folder.glob("ckpt-*.index"), key=lambda path: int(path.stem.removeprefix("ckpt-")))
    reader = tf.train.load_checkpoint(str(newest.with_suffix("")))
    weights, steps = (reader.get_tensor(f"optimizer/{name}/.ATTRIBUTES/VARIABLE_VALUE") for name in _SAVED)
    return weights, int(steps)
