"""Forward and backward pass of a step on one device, timed and traced: the parts of profiles."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import UsageError
from autodist.graph import CapturedStep, Role, StepTrace, TraceSubject, TrainingGraph, node_of
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime._session_steps import SessionSteps
from autodist.runtime._step import CompiledStep
from autodist.runtime.data import Arguments, Convention, part_of
from autodist.runtime.measuring._traced import node_times
from autodist.runtime.state import StateStore
from autodist.strategies import DEFAULT_BATCH_SIZE, AllReduce

_WORD = b"profile "
_WARM_UP = 3
_SHARES = (0.2, 0.7, 1.0)
"""When the warm-up, the timing and the tracing end, as parts of the whole time."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ProfileOrder:
    """An order to profile a step.

    Attributes:
        steps: How many are timed, and how many are traced.
        longest_s: Seconds after which no more are begun; at least one of each is.

    Raises:
        UsageError: The number of steps or the time is too small.

    Example:
        >>> ProfileOrder.decode(ProfileOrder(steps=5).encode())
        ProfileOrder(steps=5, longest_s=3.0)
        >>> ProfileOrder.decode(b"{}") is None
        True
    """

    steps: int = 10
    longest_s: float = 3.0

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.longest_s > 0:
            raise UsageError(
                f"a profile was asked for of {self.steps} steps in {self.longest_s:g} s, allowed: 1 or more, above 0"
            )

    def encode(self) -> bytes:
        """The bytes that are sent to a worker."""
        return _WORD + json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, order: bytes) -> ProfileOrder | None:
        """The order that was sent, None if it is another one."""
        return cls(**json.loads(order[len(_WORD) :])) if order.startswith(_WORD) else None


class StepProfiler:
    """Runs a captured step as one replica does, but alone: on its part of the batch, without any updates.

    A replica hands over its gradients as soon as they exist, and updates are another matter. So the gradients are what
    is run for: TensorFlow keeps them apart as it would for a collective, and they have their names in the trace. The
    program's variables only lend their values.

    Args:
        worker: This process.
        spec: The cluster.
        convention: What a batch and a loss mean.
        captured: The step.
        arguments: Those of a call.
        local: Whether they are this worker's part of the global batch.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        convention: Convention,
        captured: CapturedStep,
        arguments: Arguments,
        *,
        local: bool,
    ) -> None:
        self._host = spec.hosts[worker.rank]
        self._convention = convention
        self._captured = captured
        replicas = len(self._host.replica_devices if local else spec.replicas)
        self._arguments = _share(captured.graph, arguments, replicas)
        self._batch_size = _batch_size(captured.graph, self._arguments, replicas)

    @property
    def subject(self) -> TraceSubject:
        """The graph that is run, and its arguments."""
        shapes = tuple(tuple(map(int, array.shape)) for array in self._arguments.arrays)
        return TraceSubject(_device(self._host), self._batch_size, shapes, _cores_share(self._host))

    def run(self, order: ProfileOrder, name: str) -> StepTrace:
        """Time some steps and trace some.

        Args:
            order: How many.
            name: Unlike that of any other session of the process.

        Raises:
            UsageError: The replica's device is a GPU.
        """
        if self._host.gpus:  # what is traced of a GPU's operations is when they were asked for
            raise UsageError("the replicas are on GPUs, profiles are made on CPUs only")
        alone = Worker(WorkerEnvironment())
        state = StateStore(alone, name, borrows=True)
        spec = ResourceSpec((replace(self._host, cpus=1),))  # it shares the host with no other replica
        strategy = AllReduce().build(self._captured.graph, spec)
        try:
            steps = SessionSteps(alone, spec, self._convention, state, name)
            return self._measured(steps.bring_in(self._captured, strategy, name), order, name)
        finally:
            if state.host is not None:
                state.host.dispose()

    def _measured(self, step: CompiledStep, order: ProfileOrder, name: str) -> StepTrace:
        from tensorflow.core.protobuf import config_pb2

        nodes = [node for node in _without_updates(self._captured.graph) if node in step.graph.nodes]
        feeds = step.feeds(self._arguments, local=False).values
        plain, traced = step.running(nodes), step.running(nodes, traced=True)
        began = time.monotonic()
        warm, timed, ended = (began + share * order.longest_s for share in _SHARES)

        def timing() -> tuple[float, float]:
            before, processor = time.perf_counter(), time.process_time()
            plain(*feeds)
            return time.perf_counter() - before, time.process_time() - processor

        def tracing() -> Any:
            metadata = config_pb2.RunMetadata()
            traced(*feeds, run_metadata=metadata)
            return metadata

        _repeat(timing, _WARM_UP, warm)
        times = _repeat(timing, order.steps, timed)
        tracing()
        step_s, processor_s = (median(column) for column in zip(*times, strict=True))
        return StepTrace(
            self.subject, step_s, processor_s, node_times(_repeat(tracing, order.steps, ended), step_s, name)
        )


def _repeat(act: Callable[[], _Result], count: int, until_s: float) -> list[_Result]:
    """Do something this many times, but stop at the time `until_s`; once at least."""
    results = [act()]
    while len(results) < count and time.monotonic() < until_s:
        results.append(act())
    return results


def _share(graph: TrainingGraph, arguments: Arguments, replicas: int) -> Arguments:
    """The first replica's part of a batch, one example at least."""
    arrays = [
        array[: max(1, part_of(len(array), replicas, 0, 1)[1])] if step_input.split else array
        for array, step_input in zip(arguments.arrays, graph.inputs, strict=True)
    ]
    return replace(arguments, arrays=tuple(arrays))


def _batch_size(graph: TrainingGraph, arguments: Arguments, replicas: int) -> int:
    """Examples of one replica; of a step without a batch, its part of the batch that simulators suppose."""
    sizes = (len(array) for array, given in zip(arguments.arrays, graph.inputs, strict=True) if given.split)
    return next(sizes, -(-DEFAULT_BATCH_SIZE // replicas))


def _without_updates(graph: TrainingGraph) -> list[str]:
    """The nodes of a step to run: gradients, and the results and effects for which no gradient is needed."""
    marks = [node_of(t) for v in graph.trainable for gradient in v.gradients for t in gradient.tensors]
    trained = {v.handle for v in graph.variables if v.role in (Role.TRAINABLE, Role.SLOT)}
    updates = [write.node for write in graph.analysis.writes.values() if not trained.isdisjoint(write.handles)]
    dependents = _dependents(graph, (*marks, *updates))
    others = [*(node_of(output.tensor) for output in graph.outputs), *graph.effects]
    return list(dict.fromkeys([*marks, *(node for node in others if node not in dependents)]))


def _dependents(graph: TrainingGraph, roots: Iterable[str]) -> set[str]:
    """Some nodes and all that need them or wait for them."""
    dependents = set(roots)
    for name in graph.analysis.order:
        if not dependents.isdisjoint(map(node_of, graph.analysis.nodes[name].input)):
            dependents.add(name)
    return dependents


# What it is run on ---------------------------------------------------------------------------------------------------


def _device(host: Host) -> str:
    """The processor, the threads of an operation, and whose operations they are."""
    import tensorflow as tf

    if host.gpus:
        return f"GPU, TensorFlow {tf.__version__}"
    return f"{_processor()}, {_threads()} threads, TensorFlow {tf.__version__}"


def _cores_share(host: Host) -> float:
    """The fraction of the cores that an operation may use, by the number of its threads."""
    return 1.0 if host.gpus else min(1.0, _threads() / _num_processors())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _threads() -> int:
    """As many as TensorFlow takes for one operation."""
    given = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else _num_processors()


def _num_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
