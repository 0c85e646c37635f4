"""One worker of a cluster within this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.graph import CapturedStep, full_name
from autodist.kernels import DistributedGraph, KeptGradients, Turn
from autodist.runtime.data import split_global
from autodist.runtime.session import Server
from autodist.testing._in_process._local_servers import server_targets, session_config
from autodist.testing._in_process._local_streams import by_queues

_TIMEOUT_S = 20.0

Array: TypeAlias = npt.NDArray[Any]


class InProcessWorker:
    """A worker with a graph and a session of its own, in this process.

    Attributes:
        rank: The worker among all, from 0.
        graph: The step that the kernels have made for it.
        session: The TensorFlow session that runs it.
        servers: What it applies for others alongside its own steps.
    """

    def __init__(self, captured: CapturedStep, graph: DistributedGraph, container: str) -> None:
        import tensorflow as tf

        self.graph = graph
        self.rank = graph.layout.rank
        self.servers: list[Server] = []
        self._captured = captured
        self._container = container
        self._imported = tf.Graph()
        with self._imported.as_default():
            local = by_queues(graph.graph_def, self.rank, graph.layout.world_size)
            tf.graph_util.import_graph_def(local, name="step")
        self.session = tf.compat.v1.Session(server_targets()[self.rank], graph=self._imported, config=session_config())
        self._reads: dict[str, Any] = {}
        self._kept = KeptGradients(graph.delay)
        self._fed: dict[str, Array] = {}

    def initialize(self, values: Mapping[str, Array]) -> None:
        """Set the variables that live here, and begin to serve.

        Args:
            values: By name, at least of these variables; of the whole, where a part lives here.
        """
        with self._imported.as_default():
            for variable in self.graph.variables:
                home, piece = self.graph.placement[variable.name], variable.piece
                if f"task:{self.rank}/" in home and piece is None:
                    self._set(variable, home, values[variable.name])
                elif f"task:{self.rank}/" in home and piece is not None:
                    part = tuple(slice(b, b + n) for b, n in zip(piece.begin, variable.shape, strict=True))
                    self._set(variable, home, values[piece.whole][part])
        self.run(self.graph.initializers)
        self.servers = [
            Server(serving, self._callable(serving.targets), self._callable(serving.stops))
            for serving in self.graph.serving
        ]

    def _set(self, variable: Any, home: str, value: Array) -> None:
        """Give a variable its value, and make a read of it."""
        import tensorflow as tf

        with tf.device(home):
            handle = tf.raw_ops.VarHandleOp(
                dtype=variable.dtype, shape=variable.shape, shared_name=variable.name, container=self._container
            )
            self.session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value)))
            self._reads[variable.name] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(variable.dtype))

    def _callable(self, targets: Iterable[str]) -> Callable[[], object]:
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions(target=[f"step/{target}" for target in targets])
        made: Callable[[], object] = self.session._make_callable_from_options(options)
        return made

    def settle(self, steps: Sequence[int]) -> None:
        """Wait until what workers have sent in this many steps, by rank, has been applied here.

        All workers must do so at once: they exchange the gradients that they have kept.
        """
        while self._kept.count:
            self.run(self.graph.effects_in(Turn.APPLIES), self._fed)
            self._kept.ran(Turn.APPLIES)
        for server in self.servers:
            server.wait_for(server.expected_rounds(list(steps)), _TIMEOUT_S)

    def refresh(self, values: Mapping[str, Array]) -> None:
        """Bring the values of variables, by name, to this worker's copies of them."""
        feed = {f"step/{refresher.feed}:0": values[name] for name, refresher in self.graph.refreshers.items()}
        self.run([refresher.node for refresher in self.graph.refreshers.values()], feed)

    def run(self, nodes: Iterable[str], feed: Any = None, fetches: Iterable[str] = ()) -> list[Array]:
        """Run nodes of the step, for 20 s at most, and return the tensors that are fetched."""
        import tensorflow as tf

        options = tf.compat.v1.RunOptions(timeout_in_ms=int(_TIMEOUT_S * 1000))
        wanted = [[f"step/{name}" for name in nodes], [full_name(f"step/{name}") for name in fetches]]
        found: list[Array] = self.session.run(wanted, feed, options=options)[1]
        return found

    def step(self, batch: Sequence[Array]) -> list[Array]:
        """Take part in a step on a global batch; all others must as well. Returns the outputs."""
        turn, self._fed = self._kept.turn(), self._feeds(batch)
        found = self.run(self.graph.effects_in(turn), self._fed, self.graph.outputs)
        self._kept.ran(turn)
        return found

    def _feeds(self, batch: Sequence[Array]) -> dict[str, Array]:
        layout = self.graph.layout
        feed: dict[str, Array] = {}
        ranges: Sequence[tuple[int, int]] = [(0, 0)]
        if not layout.is_idle:
            count = len(layout.local_replicas)
            ranges = split_global(len(batch[0]), layout.num_replicas, layout.first_replica, count).ranges
        for array, names in zip(batch, self.graph.feeds, strict=True):
            for name, (start, stop) in zip(names, ranges, strict=True):
                if name is not None:
                    feed[f"step/{name}:0"] = array[start:stop] if stop > start else array[:1]
        if self.graph.rows is not None:
            feed[f"step/{self.graph.rows}:0"] = np.array([stop - start for start, stop in ranges], np.float32)
        if self.graph.total is not None:
            feed[f"step/{self.graph.total}:0"] = np.array(len(batch[0]), np.float32)
        return feed

    def values(self) -> dict[str, Array]:
        """The variables that live here, by name."""
        return dict(zip(self._reads, self.session.run(list(self._reads.values())), strict=True))
