"""Several workers in one process, each with a graph, a session and a thread of its own."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from typing_extensions import Self

from autodist.errors import UsageError
from autodist.graph import TrainingGraph, VariableNames, capture
from autodist.kernels import Layout, Requests, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import Strategy, StrategyBuilder, StrategyLike, check, compose
from autodist.testing._in_process._in_process_worker import Array, InProcessWorker
from autodist.testing._in_process._local_servers import MOST_DEVICES, MOST_WORKERS

Plan: TypeAlias = "StrategyLike | Callable[[TrainingGraph], Strategy]"

_numbers = itertools.count()


class InProcessCluster:
    """Workers of a strategy in this process, ready to take steps: for tests of strategies, synchronizers and kernels.

    Each has what the kernels make for it, a session with a TensorFlow server, and a thread. Nothing is launched, so
    what connects processes is not there: what ``tcp`` carries goes over queues of these servers, and instead of asking
    each other within steps workers use each other's devices.

    Args:
        step: A training step on variables, which keep their values.
        batch: A batch, for the shapes and types of its arrays; any number of rows may follow.
        strategy: A builder, a strategy, a builder's name, a file, or a function from the captured graph to a strategy.
        spec: The cluster: at most 4 hosts with at most 2 CPU devices each.

    Attributes:
        captured: The captured step.
        strategy: The strategy by which it runs.
        workers: The workers, by rank.

    Raises:
        StrategyError: The strategy does not fit the step.
        UsageError: The cluster is too large.

    Example:
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> from autodist.resource_spec import Host, ResourceSpec
        >>> weight = tf.Variable([[1.0]])
        >>> def step(x):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_mean(x @ weight)
        ...     weight.assign_sub(0.5 * tape.gradient(loss, weight))
        ...     return loss
        >>> spec = ResourceSpec((Host("a", "a"), Host("b", "b")))
        >>> batch = np.float32([[1.0], [3.0]])
        >>> with InProcessCluster(step, [batch], "PS", spec) as cluster:
        ...     outputs = cluster.step(batch)
        ...     values = cluster.values()
        >>> [float(loss) for (loss,) in outputs], [value.tolist() for [value] in values.values()]
        ([2.0, 2.0], [[[0.0]]])
    """

    def __init__(self, step: Callable[..., Any], batch: Sequence[Array], strategy: Plan, spec: ResourceSpec) -> None:
        if spec.world_size > MOST_WORKERS or any(len(host.replica_devices) > MOST_DEVICES for host in spec.hosts):
            raise UsageError(
                f"the cluster has {spec.world_size} hosts with up to "
                f"{max(len(host.replica_devices) for host in spec.hosts)} devices, "
                f"within a process {MOST_WORKERS} with {MOST_DEVICES} are possible",
                hint="take a smaller cluster, or `EmulatedCluster`",
            )
        self.captured = capture(step, open_specs(batch), VariableNames())
        self.strategy = _composed(strategy, self.captured.graph, spec)
        container = f"in_process_{next(_numbers)}"
        training, prepared = prepare(self.captured.graph, self.strategy)
        kernels = kernels_for(training, prepared, step=container, container=container)
        kernels = tuple(kernel for kernel in kernels if not isinstance(kernel, Requests))
        layouts = [Layout.of(prepared, spec, rank, server=True) for rank in range(spec.world_size)]
        graphs = [rewrite(training, layout, kernels)[0] for layout in layouts]
        self.workers = tuple(InProcessWorker(self.captured, graph, container) for graph in graphs)
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self.workers))
        values = {name: value_of(handle) for name, handle in self.captured.handles.items()}
        for worker in self.workers:
            worker.initialize(values)
        self.refresh()

    def step(self, *batch: Array) -> list[list[Array]]:
        """Have all workers take a step on a global batch; returns the outputs of each, by rank."""
        return list(self._pool.map(lambda worker: worker.step(batch), self.workers))

    def refresh(self) -> None:
        """Bring the values of variables to the workers' copies of them."""
        values = {name: found[0] for name, found in self.values().items()}
        for worker in self.workers:
            worker.refresh(values)

    def settle(self, steps: int) -> None:
        """Wait until all gradients of this many steps are applied: those kept, and those that servers were sent."""
        list(self._pool.map(lambda worker: worker.settle([steps] * len(self.workers)), self.workers))

    def values(self) -> dict[str, list[Array]]:
        """By variable, or part of one, its value: one where a server holds it, else each worker's own by rank."""
        found: dict[str, list[Array]] = {}
        for worker in self.workers:
            for name, value in worker.values().items():
                found.setdefault(name, []).append(value)
        return found

    def close(self) -> None:
        """Stop what serves, and end the sessions."""
        self._pool.shutdown()
        for worker in self.workers:
            for server in worker.servers:
                server.stop()
        for worker in self.workers:
            worker.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_specs(batch: Sequence[Array]) -> list[Any]:
    """The specs of a batch's arrays, for any number of rows."""
    import tensorflow as tf

    return [tf.TensorSpec([None, *a.shape[1:]], tf.string if a.dtype.kind == "O" else a.dtype) for a in batch]


def value_of(handle: Any) -> Array:
    """The value of one of the program's variables, by its handle."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    dtype = tf.as_dtype(handle._handle_data.shape_and_type[0].dtype)
    with context.eager_mode():
        value: Array = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()
    return value


def _composed(strategy: Plan, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
    if isinstance(strategy, str | os.PathLike | StrategyBuilder | Strategy):
        return compose(strategy, graph, spec)
    made = strategy(graph)
    check(made, graph, spec)
    return made
