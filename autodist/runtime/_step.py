"""A compiled step: feeds this worker's part of a batch, runs, returns the outputs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from autodist.errors import UsageError
from autodist.graph import CapturedStep
from autodist.graph.layouts import bounds_of_part
from autodist.kernels import DistributedGraph, KeptGradients, Turn
from autodist.runtime._part_failures import part_failures
from autodist.runtime.data import Arguments, BatchSplit, as_floats, batch_size, split_global, split_local
from autodist.runtime.session import SessionHost

_Result = TypeVar("_Result")


class _Batch(enum.Enum):
    """A worker's rows of a batch."""

    GLOBAL = "all of it"
    LOCAL = "its part"
    NONE = "a part without examples, perhaps as all others"


@dataclass(frozen=True)
class BatchFeeds:
    """The feeds for a batch.

    Attributes:
        values: In the order in which they are fed.
        batch: Which rows of the batch they hold.
    """

    values: list[Any]
    batch: _Batch


class CompiledStep:
    """One rewritten graph in the session, ready to be called.

    Args:
        captured: The step as traced.
        graph: The step as rewritten for this worker.
        host: The session.
        prefix: The name under which the graph was imported.
        written: Names of the variables that it changes.

    Attributes:
        graph: The step as rewritten.
        taken: How often it was run since it was rewritten.
        servers: Threads of this worker that apply updates while the step runs.
    """

    def __init__(
        self, captured: CapturedStep, graph: DistributedGraph, host: SessionHost, prefix: str, written: Collection[str]
    ) -> None:
        self.captured = captured
        self.graph = graph
        self._host = host
        self._prefix = prefix
        self._written = frozenset(written)
        self._split = [argument.split for argument in captured.graph.inputs]
        self._callables: dict[tuple[_Batch, Turn], Any] = {}
        self._kept = KeptGradients(graph.delay)
        self._last: BatchFeeds | None = None
        self._last_rows: list[np.ndarray] | None = None
        self.taken = 0
        self.servers = host.serve(prefix, graph)

    def replace(self, graph: DistributedGraph, prefix: str, host: SessionHost) -> None:
        """Go on with another rewriting of the same step; all its updates must have been applied."""
        for server in self.servers:
            server.stop()
        self._host = host
        self.servers = self._host.serve(prefix, graph)
        self.taken = 0
        self.graph = graph
        self._kept = KeptGradients(graph.delay)
        self._prefix = prefix
        self._callables.clear()

    def feeds(self, arguments: Arguments, *, local: bool, fingerprint: int = 0) -> BatchFeeds:
        """The feeds for a batch.

        Args:
            arguments: The call's arguments.
            local: Whether they are this worker's part of the global batch; else they are the whole of it.
            fingerprint: A hash of the global batch, which must be the same on all workers.

        Raises:
            UsageError: They are not a batch.
        """
        if self.graph.layout.is_alone:
            arrays: Sequence[Any] = arguments.arrays
            values = [array for array, feed in zip(arrays, self.graph.feeds, strict=True) if feed[0] is not None]
            return BatchFeeds(values, _Batch.GLOBAL)
        if not any(self._split):
            values = list(self._whole_feeds(arguments.arrays))
            checked = [] if self.graph.batches is None else [as_floats(fingerprint, self.graph.layout.world_size)]
            return BatchFeeds([*values, *checked], _Batch.GLOBAL)
        split = self._ranges(arguments, local)
        batch = _Batch.LOCAL if local else _Batch.GLOBAL
        if split.total is None and not any(split.rows) and not self.graph.layout.is_idle:
            batch = _Batch.NONE
        values = self._replica_feeds(arguments, split, batch)
        if self.graph.rows is not None:
            values.append(np.asarray(split.rows, np.float32))
        if self.graph.total is not None and split.total is not None:
            values.append(np.float32(split.total))
        if self.graph.batches is not None:
            values.append(as_floats(fingerprint, self.graph.layout.world_size))
        return BatchFeeds(values, batch)

    def run(self, feeds: BatchFeeds) -> list[np.ndarray]:
        """Run the step.

        Returns:
            The values of the step's tensor outputs, in flattened order.
        """
        turn = self._kept.turn()
        self._last = feeds if self.graph.delay is not None else None
        values = self._taken(lambda: list(self._callable(feeds.batch, turn)(*feeds.values)))
        self._kept.ran(turn)
        return values

    @property
    def num_kept(self) -> int:
        """The number of steps whose gradients are still to be applied."""
        return self._kept.count

    @property
    def read_later(self) -> frozenset[str]:
        """The variables that their updates read only then: what the program assigns to them has to come after these."""
        return frozenset(self.graph.delay.reads) if self.graph.delay and self.num_kept else frozenset()

    def apply_kept(self) -> None:
        """Exchange and apply the gradients of the oldest step that are still to be applied; all workers must do so.

        What an update may need of a batch besides, as the number of its examples, is that of the last one.
        """
        assert self._last is not None, "no step has kept any"
        feeds = self._last
        self._taken(lambda: self._callable(feeds.batch, Turn.APPLIES)(*feeds.values))
        self._kept.ran(Turn.APPLIES)

    def result(self, values: Sequence[Any]) -> Any:
        """Make the step's result for the program, of the values that :meth:`run` gives; the chief writes summaries."""
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(value) for value in values]
        if self.graph.layout.rank == 0:
            self.captured.write_summaries(tensors)
        return self.captured.pack(tensors)

    def running(self, nodes: Sequence[str], *, traced: bool = False) -> Any:
        """A function of the values of :meth:`feeds` that runs some nodes and nothing else, for a step of one replica.

        Args:
            nodes: Names as in the rewritten step.
            traced: Whether it is traced; see :meth:`SessionHost.callable`.
        """
        assert self.graph.layout.is_alone, "replicas would wait for each other"
        feeds = [self._tensor(feed) for [feed] in self.graph.feeds if feed is not None]
        return self._host.callable(feeds, (), [f"{self._prefix}/{node}" for node in nodes], traced=traced)

    def traced(self, feeds: BatchFeeds) -> Any:
        """Run the step as :meth:`run` does, and return what TensorFlow tells of it, a ``RunMetadata``."""
        turn = self._kept.turn()
        self._last = feeds if self.graph.delay is not None else None
        wanted, fetches, targets = self._endpoints(feeds.batch, turn)
        values = dict(zip(wanted, feeds.values, strict=True))
        found = self._taken(lambda: self._host.traced(values, [*fetches, *targets]))
        self._kept.ran(turn)
        return found

    def _taken(self, act: Callable[[], _Result]) -> _Result:
        """Run the step some way, and note what has changed by it."""
        if not all(table.is_as_captured for table in self.captured.tables):
            raise UsageError(
                "the program has changed a lookup table that a step looks things up in, since the step was traced",
                hint="fill lookup tables before the first step; what changes later is kept in a `tf.Variable`",
            )
        self._host.refresh(self._prefix, self.graph.refreshers)
        for server in self.servers:
            server.check()
        with part_failures(self.captured, self.graph, self._prefix):
            try:
                result = act()
            except BaseException:
                for server in self.servers:
                    server.check()  # what has failed there is why this step did: to be told before others tell of it
                raise
        self.taken += 1
        self._host.outdate(self._written - self.graph.refreshers.keys())
        return result

    def _ranges(self, arguments: Arguments, local: bool) -> BatchSplit:
        layout = self.graph.layout
        chosen = [k for k, is_split in enumerate(self._split) if is_split]
        size = batch_size([arguments.arrays[k] for k in chosen], [arguments.names[k] for k in chosen])
        num_local = len(layout.local_replicas)
        if local:
            if layout.is_idle and size:
                raise UsageError(
                    f"worker {layout.rank} has no replica in this strategy, but was given {size} examples of its own",
                    hint="give the scope a strategy that is known before the data is sharded: a `Strategy`, or a file",
                )
            return split_local(size, num_local)
        if layout.is_idle:
            return BatchSplit(((0, 0),), size)
        return split_global(size, layout.num_replicas, layout.first_replica, num_local)

    def _replica_feeds(self, arguments: Arguments, split: BatchSplit, batch: _Batch) -> list[Any]:
        values: list[Any] = []
        for k, (array, feeds, is_split) in enumerate(zip(arguments.arrays, self.graph.feeds, self._split, strict=True)):
            used = [place for place, feed in enumerate(feeds) if feed is not None]
            if not is_split:
                values.extend([array] if used else [])
                continue
            if batch is _Batch.NONE:
                values.extend([self._borrowed(k, array)] if used and self.graph.borrowed[k] is not None else [])
                continue
            for start, stop in (split.ranges[place] for place in used):
                # From a batch without rows each replica gets just that.
                values.append(array[start:stop] if stop > start or split.total == 0 else self._borrowed(k, array))
        if split.rows[0]:
            self._last_rows = [a[:1] if s else a for a, s in zip(arguments.arrays, self._split, strict=True)]
        return values

    def _whole_feeds(self, arrays: Sequence[Any]) -> Iterator[Any]:
        """Arguments that are not a batch: whole, or those parts that this worker's replicas have."""
        layout = self.graph.layout
        for array, feeds, given in zip(arrays, self.graph.feeds, self.captured.graph.inputs, strict=True):
            if not given.tiles:
                yield from [array] if feeds[0] is not None else []
                continue
            places = ((dim, replica) for dim in given.tiles for replica in range(len(layout.local_replicas)))
            for feed, (dim, replica) in zip(feeds, places, strict=True):
                if feed is not None:
                    yield _part(array, dim, layout.num_replicas, layout.first_replica + replica)

    def _borrowed(self, position: int, array: Any) -> np.ndarray:
        """An example for a replica without any: it computes something finite that then counts for nothing."""
        if len(array):
            return np.asarray(array[:1])
        if self._last_rows is not None and self._last_rows[position].shape[1:] == array.shape[1:]:
            return self._last_rows[position]
        return np.zeros((1, *array.shape[1:]), array.dtype)

    def _callable(self, batch: _Batch, turn: Turn) -> Any:
        if (batch, turn) not in self._callables:
            self._callables[batch, turn] = self._host.callable(*self._endpoints(batch, turn))
        return self._callables[batch, turn]

    def _endpoints(self, batch: _Batch, turn: Turn) -> tuple[list[str], list[str], list[str]]:
        """The tensors that are fed and fetched, and the nodes that are run besides."""
        feeds: list[str] = []
        for k, (per_replica, is_split) in enumerate(zip(self.graph.feeds, self._split, strict=True)):
            wanted = [feed for feed in per_replica if feed is not None]
            if is_split and batch is _Batch.NONE and wanted:
                wanted = [feed for feed in self.graph.borrowed[k : k + 1] if feed is not None]
            feeds.extend(wanted if is_split or self.captured.graph.inputs[k].tiles else wanted[:1])
        if self.graph.rows is not None:
            feeds.append(self.graph.rows)
        if self.graph.total is not None and batch is _Batch.GLOBAL:
            feeds.append(self.graph.total)
        if self.graph.batches is not None:
            feeds.append(self.graph.batches)
        outputs = self.graph.outputs if batch is _Batch.GLOBAL else self.graph.local_outputs
        fetches = [] if turn is Turn.APPLIES else [self._tensor(name) for name in outputs]
        targets = [f"{self._prefix}/{effect}" for effect in self.graph.effects_in(turn)]
        targets += self._host.watched(self._prefix, fetches, targets)
        return [self._tensor(name) for name in feeds], fetches, targets

    def _tensor(self, name: str) -> str:
        return f"{self._prefix}/{name}" + ("" if ":" in name else ":0")


def _part(array: Any, dim: int, parts: int, part: int) -> Any:
    """One of the parts of an array along a dim."""
    return array[(slice(None),) * dim + (slice(*bounds_of_part(array.shape[dim], parts, part)),)]
