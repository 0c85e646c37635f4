"""A worker's side of a search: it measures, one after another, the strategies that the launcher sends."""

from __future__ import annotations

import gc
import itertools
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from autodist.coordination import CoordinatorClient, Worker, WorkerEnvironment, send_bytes
from autodist.errors import AutoDistError, StrategyError
from autodist.garbage import old_objects_stay
from autodist.graph import CapturedStep, TraceSubject, TrainingGraph
from autodist.resource_spec import ResourceSpec
from autodist.runtime._session_steps import SessionSteps
from autodist.runtime._step import CompiledStep
from autodist.runtime.data import Arguments, Convention, part_of
from autodist.runtime.measuring._step_profiler import ProfileOrder, StepProfiler
from autodist.runtime.measuring._worker_timeline import clock_offset_s, worker_timeline
from autodist.runtime.state import StateStore
from autodist.strategies import AllReduce, Strategy, check

ORDERED = "AUTODIST_TRIALS"
"""The environment variable by which a launcher has the first training step measured instead of trained."""

_LONGEST_MESSAGE = 3000
_HEADING = re.compile(r"From /job:\S+:|Graph execution error:|\d+ root error\(s\) found\.")
"""Lines with which TensorFlow's errors begin, before it says what happened."""
_LONGEST_TRACE_S = 600.0
_LONGEST_IDLE_S = 24 * 3600.0  # while a simulator learns; that the launcher has died is noticed at once


@dataclass(frozen=True)
class TrialKeys:
    """The coordinator's keys under which launcher and workers leave messages for each other.

    The launcher sends an order, a strategy; the workers answer that they are ready, the launcher sends how many steps
    they shall take, they answer what these took, and so on until they shall take none. Or they shall trace one: what
    ran in it is sent under the answer. An order may ask for a profile instead, which only the chief makes and sends.

    Attributes:
        number: Number of the trial.
    """

    number: int

    GRAPH = "trials/graph"
    """The prefix of the graph file's keys; is put itself last, with the subject of a profile and whether each worker
    brings a batch of its own."""

    FLOOR = b"floor"
    """An order instead of a strategy: all workers compute their parts of the batch, and send nothing."""

    TRACE = "trace"
    """A value instead of a number of steps: take one step, and trace it."""

    @property
    def order(self) -> str:
        """The strategy as JSON, a :class:`ProfileOrder`, or nothing if that was all."""
        return f"trials/{self.number}/order"

    def count(self, turn: int) -> str:
        """How many steps to take in a turn, from 1, or :attr:`TRACE`; nothing ends the trial."""
        return f"trials/{self.number}/count/{turn}"

    def answer(self, turn: int, rank: int) -> str:
        """A worker's answer: as JSON, the seconds of its steps, or why there are none. Turn 0 is the rewriting."""
        return f"trials/{self.number}/answer/{turn}/{rank}"


class OrderedTrials:
    """Measures strategies for one captured step, as the launcher orders them.

    The program's variables only lend their values, and stay as they are.

    Args:
        worker: This process.
        spec: The cluster.
        convention: What a batch and a loss mean.
    """

    def __init__(self, worker: Worker, spec: ResourceSpec, convention: Convention) -> None:
        assert worker.coordinator is not None, "only a launcher orders trials"
        self._worker = worker
        self._coordinator: CoordinatorClient = worker.coordinator
        self._spec = spec
        self._convention = convention

    def run(self, captured: CapturedStep, arguments: Arguments, *, local: bool, own: bool = False) -> None:
        """Measure until there are no more orders.

        Args:
            captured: The step.
            arguments: Those it is measured with.
            local: Whether they are this worker's part of the global batch.
            own: Whether that is because every worker brings a batch of its own.
        """
        profiler = StepProfiler(self._worker, self._spec, self._convention, captured, arguments, local=local)
        if self._worker.is_chief:
            _send_graph(self._coordinator, captured.graph, profiler.subject, own)
        self._worker.steps_taken += 1  # the script has come as far as it has to: to a training step
        gc.collect()
        with old_objects_stay():  # to look through all that the script has made takes 0.3 s after each trial
            self._measure_all(captured, arguments, profiler, local)

    def _measure_all(self, captured: CapturedStep, arguments: Arguments, profiler: StepProfiler, local: bool) -> None:
        number = 0
        while order := self._coordinator.get(TrialKeys(number).order, _LONGEST_IDLE_S):
            wanted = ProfileOrder.decode(order)
            if order == TrialKeys.FLOOR:
                _FloorTrial(self, number, captured, arguments, local).run()
            elif wanted is None:
                _Trial(self, number, Strategy.from_json(order.decode()), captured, arguments, local).run()
            elif self._worker.is_chief:
                self._profile(profiler, wanted, number)
            gc.collect()  # sessions and graphs refer to each other
            number += 1

    def _profile(self, profiler: StepProfiler, wanted: ProfileOrder, number: int) -> None:
        """Send the launcher a profile, or why there is none."""
        key = TrialKeys(number).answer(0, self._worker.rank)
        answer = {}
        try:
            trace = profiler.run(wanted, f"profile_{number}")
            send_bytes(self._coordinator, key, trace.to_json().encode())
        except Exception as error:
            answer = {"reason": _reason(error), "message": _message(error)}
        self._coordinator.put(key, json.dumps(answer).encode())


class _Trial:
    """One strategy on one worker."""

    def __init__(
        self,
        trials: OrderedTrials,
        number: int,
        strategy: Strategy,
        captured: CapturedStep,
        arguments: Arguments,
        local: bool,
    ) -> None:
        worker = self._worker = trials._worker
        self._coordinator = trials._coordinator
        self._keys = TrialKeys(number)
        self._name = f"trial_{number}"
        self._strategy = strategy
        self._captured = captured
        self._spec = trials._spec
        self._arguments = arguments
        self._local = local
        self._state = StateStore(worker, self._name, borrows=True)
        self._step: CompiledStep | None = None
        self._steps = SessionSteps(worker, self._spec, trials._convention, self._state, self._name)

    def run(self) -> None:
        """Get ready, take steps as long as more are wanted, and leave nothing behind."""
        try:
            turn = 0
            self._answer(turn, self._prepare)
            while order := self._coordinator.get(self._keys.count(turn + 1), _LONGEST_IDLE_S).decode():
                turn += 1
                act = partial(self._trace, turn) if order == TrialKeys.TRACE else partial(self._take, int(order))
                self._answer(turn, act)
        finally:
            if self._state.host is not None:
                self._state.host.dispose()

    def _answer(self, turn: int, act: Callable[[], list[float]]) -> None:
        """Do something, and tell the launcher how long it took, or why it failed."""
        answer: dict[str, Any]
        try:
            answer = {"steps_s": act()}
        except Exception as error:
            answer = {"reason": _reason(error), "message": _message(error)}
        self._coordinator.put(self._keys.answer(turn, self._worker.rank), json.dumps(answer).encode())

    def _prepare(self) -> list[float]:
        began = time.perf_counter()
        check(self._strategy, self._captured.graph, self._spec)
        self._step = self._steps.bring_in(self._captured, self._strategy, self._name)
        return [time.perf_counter() - began]

    def _take(self, count: int) -> list[float]:
        """The seconds of each of this many steps."""
        assert self._step is not None, "no steps are asked of a worker that could not get ready"
        feeds = self._step.feeds(self._arguments, local=self._local)
        times = [time.perf_counter()]
        for _ in range(count):
            self._step.run(feeds)
            self._worker.steps_taken += 1
            times.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(times)]

    def _trace(self, turn: int) -> list[float]:
        """The seconds of one step, which is traced."""
        assert self._step is not None, "no steps are asked of a worker that could not get ready"
        offset_s, feeds = clock_offset_s(self._coordinator), self._step.feeds(self._arguments, local=self._local)
        rank = self._worker.rank
        self._coordinator.barrier(f"{self._keys.answer(turn, 0)}/together", _LONGEST_TRACE_S)
        start_s = time.time()
        metadata = self._step.traced(feeds)
        end_s = time.time()
        self._worker.steps_taken += 1
        timeline = worker_timeline(metadata, rank, self._name, start_s, end_s, offset_s)
        send_bytes(self._coordinator, self._keys.answer(turn, rank), timeline.to_json().encode())
        return [end_s - start_s]


class _FloorTrial(_Trial):
    """This worker's part of a step, computed alone but at the same time as all others: no strategy is faster.

    It is the step of a cluster of this host. Its replicas sum their gradients among themselves, and update the values.
    """

    def __init__(
        self, trials: OrderedTrials, number: int, captured: CapturedStep, arguments: Arguments, local: bool
    ) -> None:
        worker, spec = trials._worker, trials._spec
        own = ResourceSpec((spec.hosts[worker.rank],))
        part = arguments if local else _part_of_host(captured.graph, arguments, spec, worker.rank)
        super().__init__(trials, number, AllReduce().build(captured.graph, own), captured, part, local=False)
        self._spec = own
        self._parts = len(spec.replicas) / max(1, len(own.replicas))
        alone = Worker(WorkerEnvironment())
        self._state = StateStore(alone, self._name, borrows=True)
        self._steps = SessionSteps(alone, own, trials._convention, self._state, self._name)

    def _prepare(self) -> list[float]:
        return super()._prepare() if self._spec.replicas else [0.0]

    def _take(self, count: int) -> list[float]:
        if not self._spec.replicas:
            return [0.0] * count
        # Where replicas share each example, this worker has computed all parts of it.
        parts = self._parts if self._captured.graph.shares_examples else 1
        return [step_s / parts for step_s in super()._take(count)]


def _part_of_host(graph: TrainingGraph, arguments: Arguments, spec: ResourceSpec, rank: int) -> Arguments:
    """The rows of a batch that a host's replicas get."""
    before = sum(len(host.replica_devices) for host in spec.hosts[:rank])
    behind = before + len(spec.hosts[rank].replica_devices)

    def part(array: Any) -> Any:
        begin, end = part_of(len(array), len(spec.replicas), before, behind)
        return array[begin:end]

    arrays = zip(arguments.arrays, graph.inputs, strict=True)
    return replace(arguments, arrays=tuple(part(array) if given.split else array for array, given in arrays))


def _send_graph(coordinator: CoordinatorClient, graph: TrainingGraph, subject: TraceSubject, own: bool) -> None:
    """Send the launcher the graph to search a strategy for, and the subject of a profile."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "graph.zip")
        graph.save(path)
        content = path.read_bytes()
    send_bytes(coordinator, TrialKeys.GRAPH, content)
    about = {"subject": asdict(subject), "has_own_batches": own}
    coordinator.put(TrialKeys.GRAPH, json.dumps(about).encode())


def _reason(error: Exception) -> str:
    import tensorflow as tf

    if isinstance(error, tf.errors.ResourceExhaustedError | MemoryError):
        return "memory"
    return "refused" if isinstance(error, StrategyError) else "error"


def _message(error: Exception) -> str:
    """An error's message, its most telling line first; the middle of a long text is left out."""
    text = error.message if isinstance(error, AutoDistError) else str(error)
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _HEADING.fullmatch(line.strip())]
    told = "\n".join([f"{type(error).__name__}: {lines[0].strip() if lines else ''}", *lines[1:]])
    if len(told) <= _LONGEST_MESSAGE:
        return told
    return f"{told[: _LONGEST_MESSAGE // 2]}\n[...]\n{told[-_LONGEST_MESSAGE // 2 :]}"
