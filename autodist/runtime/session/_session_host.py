"""The session of a worker: its graph, its TensorFlow server if it needs one, and Horovod if it uses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autodist.coordination import Worker
from autodist.graph import Variable
from autodist.kernels import DistributedGraph, QuestionSet, Refresher, proxy_name
from autodist.runtime.data import FILED_VALUES
from autodist.runtime.session._orderings import keep_orderings_in_session
from autodist.runtime.session._question_server import QuestionServer
from autodist.runtime.session._remote_values import REMOTE_VALUES
from autodist.runtime.session._serving_threads import Server
from autodist.runtime.session._step_watch import StepWatch
from autodist.runtime.session._tensorflow_server import PROCESS_SERVER

_CHUNK_BYTES = 64 * 2**20
_CHUNK_BYTES_OF_FILED = 32 * 2**20
"""Largest chunk where memory is short: values that are being moved exist twice."""
_LEADER = "/job:worker/replica:0/task:0"


@dataclass(frozen=True)
class SessionConnections:
    """How the sessions of a run are connected.

    Attributes:
        server: Whether they are sessions of TensorFlow servers, for TensorFlow's collectives.
        cpus: CPU devices of this worker.
    """

    server: bool
    cpus: int


@dataclass(frozen=True)
class _Resident:
    """A variable of the session, and the nodes that reach it."""

    value: Any
    """The placeholder of what is assigned."""
    assign: Any
    read: Any
    destroy: Any

    @property
    def size_bytes(self) -> int:
        return int(self.read.dtype.size * (self.read.shape.num_elements() or 0))


@dataclass(frozen=True)
class _RemoteVariable:
    """A variable that the session of another worker holds."""

    rank: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size_bytes(self) -> int:
        return int(self.dtype.size * prod(self.shape))


class SessionHost:
    """One graph and one session, which all steps of a scope share, and the variables that live in it.

    Args:
        worker: This process.
        wiring: How the sessions are connected.
        container: Resource container of the variables.

    Attributes:
        outdated: Variables that have changed since this worker's proxies of them, if it has any, got their values.
    """

    def __init__(self, worker: Worker, wiring: SessionConnections, container: str) -> None:
        import tensorflow as tf

        self.worker = worker
        self.wiring = wiring
        self.container = container
        self.outdated: set[str] = set()
        self._graph = tf.Graph()
        self._residents: dict[str, _Resident] = {}
        self._elsewhere: dict[str, _RemoteVariable] = {}
        self._asked_for: set[str] = set()
        self._freeing: dict[str, Any] = {}
        self._servers: list[Server] = []
        self._answers: list[QuestionServer] = []
        self._watches: dict[str, StepWatch] = {}
        self._readers: dict[tuple[str, ...], Callable[[float | None], Sequence[np.ndarray]]] = {}
        self._session = self._connect()

    def _connect(self) -> Any:
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(device_count={"CPU": self.wiring.cpus}, allow_soft_placement=True)
        if self.worker.world_size > 1:
            REMOTE_VALUES.answer_from(self.container, self.read)
        config.experimental.disable_thread_spinning = self.worker.world_size > 1
        keep_orderings_in_session(config)
        if self.wiring.server:
            config.experimental.collective_group_leader = _LEADER
        target = PROCESS_SERVER.target(self.worker, config) if self.wiring.server else ""
        return tf.compat.v1.Session(target, graph=self._graph, config=config)

    def close(self) -> None:
        """Close the session; without a TensorFlow server, what it held is gone."""
        REMOTE_VALUES.answer_no_more(self.container)
        self._stop(self._answers)
        self._session.close()

    def dispose(self) -> None:
        """Leave nothing of the session in this process, whatever else its TensorFlow server holds."""
        self._stop(self._servers)
        self._run([resident.destroy for resident in self._residents.values()])
        self.close()

    def _stop(self, threads: Sequence[Server | QuestionServer]) -> None:
        for thread in threads:
            thread.stop()
            self.worker.not_on_exit(thread.stop)

    # Steps -------------------------------------------------------------------------------------------------------

    def add_step(self, name: str, graph: DistributedGraph) -> None:
        """Bring a rewritten step into the session's graph, under a prefix."""
        import tensorflow as tf

        graph_def, watch = StepWatch.over(name, graph)
        if watch is not None:
            self._watches[name] = watch
        with self._graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name=name)
        if graph.initializers:
            self.run([f"{name}/{node}" for node in graph.initializers])

    def watched(self, name: str, fetches: Sequence[str], targets: Sequence[str]) -> list[str]:
        """Nodes to run along with a step: they end the watch over it, if there is one."""
        watch = self._watches.get(name)
        return [] if watch is None else watch.ends(self._graph, fetches, targets)

    def serve(self, name: str, graph: DistributedGraph) -> tuple[Server, ...]:
        """Start what this worker serves for a step, until the program ends or the servers are stopped."""
        servers = tuple(
            Server(serving, self._targets(name, serving.targets), self._targets(name, serving.stops))
            for serving in graph.serving
        )
        for server in servers:
            self.worker.on_exit(server.stop)
        self._servers += servers
        return servers

    def answer(self, name: str, asker: int, asked: QuestionSet) -> None:
        """Answer from now on what another worker asks for a step, until the program or the session ends."""
        import tensorflow as tf

        prefix = f"{name}/answers_{asker}"
        with self._graph.as_default():
            tf.graph_util.import_graph_def(asked.graph_def, name=prefix)
        for question in asked.questions:
            self._answers.append(QuestionServer(question, asker, self._targets(prefix, [question.node])))
            self.worker.on_exit(self._answers[-1].stop)

    def _targets(self, name: str, targets: Sequence[str]) -> Any:
        return self.callable((), (), [f"{name}/{target}" for target in targets])

    def run(self, nodes: Sequence[str]) -> None:
        """Run nodes once."""
        self._run([self._graph.get_operation_by_name(node) for node in nodes])

    def callable(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], *, traced: bool = False
    ) -> Any:
        """A function from values of `feeds`, in order, to the list of values of `fetches`; runs `targets` as well.

        One that is traced takes a ``RunMetadata`` as ``run_metadata``, and fills it.
        """
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions()
        if traced:
            # More than this starts TensorFlow's profiler, for what is not on the CPU.
            options.run_options.trace_level = config_pb2.RunOptions.SOFTWARE_TRACE
        options.feed.extend(feeds)
        options.fetch.extend(fetches)
        options.target.extend(targets)
        return self._session._make_callable_from_options(options)

    def traced(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Any:
        """Run tensors and nodes by their names, and return what has run where: a ``RunMetadata``.

        Sessions that are connected tell it only where all is traced and nothing is prepared.
        """
        from tensorflow.core.protobuf import config_pb2

        everything, no_profiler = config_pb2.RunOptions.FULL_TRACE, config_pb2.RunOptions.SOFTWARE_TRACE
        options = config_pb2.RunOptions(trace_level=everything if self.wiring.server else no_profiler)
        metadata = config_pb2.RunMetadata()
        wanted = [self._graph.as_graph_element(name) for name in fetches]
        self._session.run(wanted, dict(feeds), options=options, run_metadata=metadata)
        return metadata

    def refresh(self, prefix: str, refreshers: Mapping[str, Refresher]) -> None:
        """Update this worker's copies of those variables that have changed since they were copied."""
        names = sorted(self.outdated & refreshers.keys())
        if not names:
            return
        feed = {f"{prefix}/{refreshers[name].feed}:0": value for name, value in self.read(names)}
        self._run([self._graph.get_operation_by_name(f"{prefix}/{refreshers[name].node}") for name in names], feed)
        self._asked_for.update(names)
        self.outdated -= set(names)

    def outdate(self, names: Collection[str]) -> None:
        """Note that variables have changed, and this worker's copies of them, if it has any, have not.

        Copies that it has asked for are freed: a step that trains nothing had them, and others train now.
        """
        self.outdated |= set(names)
        for name in self._asked_for & set(names):
            self._free_copy(name)

    def _free_copy(self, name: str) -> None:
        self._asked_for.remove(name)
        self._run(self._freeing_of(name))

    def _freeing_of(self, name: str) -> Any:
        import tensorflow as tf

        if name not in self._freeing:
            where = self._elsewhere[name]
            with self._graph.as_default():
                handle = tf.raw_ops.VarHandleOp(
                    dtype=where.dtype, shape=where.shape, shared_name=proxy_name(name), container=self.container
                )
                self._freeing[name] = tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
        return self._freeing[name]

    # Variables ---------------------------------------------------------------------------------------------------

    def declare(self, variables: Iterable[Variable], graph: DistributedGraph) -> None:
        """Make nodes that read and assign new variables of a step, where the step has them."""
        for variable in variables:
            self._declare(variable.name, variable.dtype, variable.shape, graph)

    def _declare(self, name: str, dtype: str, shape: tuple[int, ...], graph: DistributedGraph) -> None:
        import tensorflow as tf

        home = graph.placement[name]
        rank = graph.layout.rank_of_tf(home)
        if rank != self.worker.rank:
            self._elsewhere[name] = _RemoteVariable(rank, shape, tf.as_dtype(dtype))
            return
        with self._graph.as_default():
            self._residents[name] = self._resident(name, dtype, shape, home)

    def _resident(self, name: str, dtype: str, shape: tuple[int, ...], home: str) -> _Resident:
        import tensorflow as tf

        with tf.device(home):
            handle = tf.raw_ops.VarHandleOp(
                dtype=tf.as_dtype(dtype), shape=shape, shared_name=name, container=self.container
            )
            value = tf.compat.v1.placeholder(dtype, shape)
            assign = tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(dtype))
            destroy = tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
        return _Resident(value, assign, read, destroy)

    def move(self, name: str, graph: DistributedGraph) -> None:
        """Give a variable the device that a step has for it; its value is lost, and its memory at the old one freed."""
        resident = self._residents[name]
        self.remove(name)
        self._declare(name, resident.read.dtype.name, tuple(resident.read.shape.as_list()), graph)

    def remove(self, name: str) -> None:
        """Free a variable's memory, and forget it."""
        if name in self._asked_for:
            self._free_copy(name)
        if self._elsewhere.pop(name, None) is None:
            self._forget_readers(name)
            self._run(self._residents.pop(name).destroy)

    def _forget_readers(self, name: str) -> None:
        self._readers = {names: reader for names, reader in self._readers.items() if name not in names}

    def write(self, values: Iterator[tuple[str, np.ndarray]]) -> None:
        """Assign values to variables, a bounded number of bytes at a time."""
        most = _CHUNK_BYTES_OF_FILED if FILED_VALUES.is_open else _CHUNK_BYTES
        pending: list[tuple[str, np.ndarray]] = []
        size = 0
        for name, value in values:
            pending.append((name, value))
            size += value.nbytes
            del value  # the list alone has it
            if size > most:
                self._write_now(pending)
                pending, size = [], 0
        self._write_now(pending)

    def _write_now(self, values: list[tuple[str, np.ndarray]]) -> None:
        if values:
            feed = {self._residents[name].value: value for name, value in values}
            self._run([self._residents[name].assign for name, _ in values], feed)

    def read(self, names: Sequence[str], timeout_s: float | None = None) -> Iterator[tuple[str, np.ndarray]]:
        """The values of variables, a bounded number of bytes at a time.

        They must not be changed: they may be in the session's own memory. An update that follows leaves them alone.

        Args:
            names: Which variables.
            timeout_s: Longest wait for the workers that hold them; None for the run's own bound.

        Raises:
            tf.errors.DeadlineExceededError: The wait was too long.
        """
        most = _CHUNK_BYTES_OF_FILED if FILED_VALUES.is_open else _CHUNK_BYTES
        pending: list[str] = []
        size = 0
        for name in names:
            pending.append(name)
            size += (self._elsewhere.get(name) or self._residents[name]).size_bytes
            if size > most:
                yield from self._read_now(pending, timeout_s)
                pending, size = [], 0
        yield from self._read_now(pending, timeout_s)

    def _read_now(self, names: list[str], timeout_s: float | None) -> Iterator[tuple[str, np.ndarray]]:
        found: dict[str, np.ndarray] = {}
        here = tuple(name for name in names if name not in self._elsewhere)
        if here:
            found |= zip(here, self._reader(here)(timeout_s), strict=True)
        for rank in {self._elsewhere[name].rank for name in names if name not in found}:
            theirs = [name for name in names if name not in found and self._elsewhere[name].rank == rank]
            found |= zip(theirs, self._asked(rank, theirs, timeout_s), strict=True)
        yield from ((name, found.pop(name)) for name in names)

    def _asked(self, rank: int, names: Sequence[str], timeout_s: float | None) -> Sequence[np.ndarray]:
        """Values that another worker's session holds."""
        wanted = [(name, self._elsewhere[name].shape, self._elsewhere[name].dtype.as_numpy_dtype) for name in names]
        bound_s = timeout_s or self.worker.environment.start_timeout_s
        return REMOTE_VALUES.read(rank, self.container, wanted, bound_s)

    def _reader(self, names: tuple[str, ...]) -> Callable[[float | None], Sequence[np.ndarray]]:
        """A function that reads variables; unlike ``Session.run`` it does not copy what is in this process."""
        if names not in self._readers:
            reads = [self._residents[name].read for name in names]
            self._readers[names] = self._taker(reads) if self.wiring.server else self._fetcher(reads)
        return self._readers[names]

    def _fetcher(self, reads: list[Any]) -> Callable[[float | None], Sequence[np.ndarray]]:
        fetch = self.callable((), [read.name for read in reads], ())
        return lambda _: fetch()

    def _taker(self, reads: list[Any]) -> Callable[[float | None], Sequence[np.ndarray]]:
        """A function that takes values inside the graph, as a server's session packs fetched ones into messages."""
        import tensorflow as tf

        taken: list[np.ndarray] = []

        @tf.autograph.experimental.do_not_convert
        def take(*values: Any) -> None:
            taken.extend(np.asarray(value._numpy()) for value in values)

        with self._graph.as_default(), tf.device(f"/job:worker/task:{self.worker.rank}/device:CPU:0"):
            node = tf.py_function(take, reads, [])

        def read(timeout_s: float | None) -> Sequence[np.ndarray]:
            taken.clear()
            self._run(node, timeout_s=timeout_s)
            values = taken.copy()
            taken.clear()
            return values

        return read

    def _run(self, fetches: Any, feed: Any = None, timeout_s: float | None = None) -> Any:
        import tensorflow as tf

        if not self.wiring.server:
            return self._session.run(fetches, feed)
        bound_s = timeout_s or self.worker.environment.start_timeout_s
        options = tf.compat.v1.RunOptions(timeout_in_ms=int(1000 * bound_s))
        return self._session.run(fetches, feed, options=options)
