"""Sharded datasets: each worker reads its part of every global batch, or of the data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any, Literal

import numpy as np

from autodist.errors import UsageError
from autodist.runtime.data._batch import LocalArray, WholeArray, part_of
from autodist.runtime.data._batch_notes import check_rows, with_note, without_note
from autodist.runtime.data._dataset_ends import DatasetEnds, going_on_together
from autodist.runtime.data._dataset_structure import (
    Pipeline,
    has_unseeded_shuffle,
    name_of,
    of_no_order,
    of_service,
    read_ahead,
    read_pipeline,
    reads_variables,
)
from autodist.runtime.data._dealt_elements import BlocksRead, PassRead, of_elements
from autodist.runtime.data._elements import has_open_rows, which_are_batches
from autodist.runtime.data._fingerprints import hashed_in_graph, hashed_names
from autodist.runtime.data._random_maps import drawn_parts

_LOG = logging.getLogger("autodist")
_ALLOWED = ("auto", "batch", "element", "file")

ShardBy = Literal["auto", "batch", "element", "file"]


@dataclass(frozen=True)
class WorkerShares:
    """The part of each worker.

    Attributes:
        replicas: Number of replicas of each worker.
        rank: This worker.
    """

    replicas: tuple[int, ...]
    rank: int

    @property
    def is_all(self) -> bool:
        """Whether this worker gets everything."""
        return self.replicas[self.rank] == sum(self.replicas)

    @property
    def is_alone(self) -> bool:
        """Whether there is one replica in all, so that nothing is split."""
        return self.replicas == (1,)

    @property
    def readers(self) -> tuple[int, ...]:
        """The workers that get anything."""
        return tuple(rank for rank, count in enumerate(self.replicas) if count)

    def rows(self, size: Any, minimum: Callable[[Any, Any], Any] = min) -> tuple[Any, Any]:
        """First and one past the last of this worker's rows, in a batch of `size` rows."""
        first = sum(self.replicas[: self.rank])
        return part_of(size, sum(self.replicas), first, first + self.replicas[self.rank], minimum)


@dataclass(frozen=True)
class DatasetPasses:
    """Callbacks by which the loops over a sharded dataset reach the engine.

    Attributes:
        handed_out: Called with True before a loop over the dataset gets a batch, with False when the loop ends.
        begin: Makes the ends of a new pass; None where there is one worker only.
        check: Refuses strategies that don't allow parts of different lengths.
    """

    handed_out: Callable[[bool], None] = lambda _: None
    begin: Callable[[], DatasetEnds] | None = None
    check: Callable[[], None] = lambda: None


class ShardedDataset:
    """A dataset of global batches, of which each worker gets its own rows, or a dataset of its own part of the data.

    Iterating yields NumPy arrays of the type :class:`LocalArray`, by which a step knows that they are a part; all parts
    together are the global batch. A worker whose part is empty still takes that step with the others. What is no batch
    comes whole, as a :class:`WholeArray`. On one device what is ragged or sparse stays so.

    Attributes:
        dataset: The ``tf.data.Dataset`` of this worker's parts.
        split: Per tensor of an element, whether it is a batch.
        by: ``"batch"``, ``"element"`` or ``"file"``.
        has_open_rows: Whether the global batches may have any number of rows, as far as their dataset tells.

    Args:
        dataset: As in the attribute, like `split`, `by` and `has_open_rows`.
        passes: The callbacks of loops over it; None for a dataset without an engine.
        read: What each pass has read of its source, where workers compare that.
    """

    def __init__(
        self,
        dataset: Any,
        split: tuple[bool, ...],
        by: str = "batch",
        passes: DatasetPasses | None = None,
        read: BlocksRead | None = None,
        *,
        has_open_rows: bool = False,
    ) -> None:
        self.dataset = dataset
        self.split = split
        self.by = by
        self.has_open_rows = has_open_rows
        self._passes = DatasetPasses() if passes is None else passes
        self._read = read
        self._note: int | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            for element in self.batches():
                arrays = self.arrays(element)
                self._passes.handed_out(True)
                yield arrays
        finally:
            self._passes.handed_out(False)

    def arrays(self, element: Any) -> Any:
        """An element as arrays that say whether they are a part of a batch; a step takes these.

        What others have added after the tensors of the dataset, such as Keras' weights, is a part like them.
        """
        import tensorflow as tf

        element, note = without_note(element)
        tensors = tf.nest.flatten(element)
        rows: list[int] = []
        if note is not None:
            note, *rows = note.numpy().tolist()
            check_rows(element, self.split, rows)
        kinds = [LocalArray if is_split else WholeArray for is_split in self.split]
        kinds += [LocalArray] * (len(tensors) - len(kinds))
        arrays = [
            np.asarray(tensor._numpy()).view(kind) if isinstance(tensor, tf.Tensor) else tensor
            for tensor, kind in zip(tensors, kinds, strict=True)
        ]
        for array in arrays:
            if isinstance(array, LocalArray | WholeArray):
                array.note = self._note if note is None and isinstance(array, LocalArray) else note
                array.rows = rows[0] if rows else None
        return tf.nest.pack_sequence_as(element, arrays)

    def batches(self, dataset: Any = None) -> Iterator[Any]:
        """The batches of one pass as tensors, as many on every worker.

        Args:
            dataset: The dataset after changes by others, if there are some, with the same number of batches.
        """
        source = self.dataset if dataset is None else dataset
        read = None if self._read is None else self._read.begin()
        batches = iter(source)
        if self.may_end_alone and self._passes.begin is not None:
            batches = going_on_together(batches, self._passes.begin(), self._empty(source), self._passes.check)
        return batches if read is None else self._noting(batches, read)

    def _noting(self, batches: Iterator[Any], read: PassRead) -> Iterator[Any]:
        for batch in batches:
            self._note = read.take()
            yield batch

    def _empty(self, dataset: Any) -> Callable[[Any], Any]:
        """Makes a batch without rows like another one, or of nothing if it is None."""
        import tensorflow as tf

        def empty(like: Any) -> Any:
            if like is None:
                return tf.nest.map_structure(lambda s: tf.zeros([0, *(d or 1 for d in s.shape[1:])], s.dtype), spec)
            tensors = tf.nest.flatten(like)
            split = (*self.split, *[True] * (len(tensors) - len(self.split)))
            parts = [tensor[:0] if is_split else tensor for tensor, is_split in zip(tensors, split, strict=True)]
            return tf.nest.pack_sequence_as(like, parts)

        spec = dataset.element_spec
        return empty

    @property
    def may_end_alone(self) -> bool:
        """Whether `dataset` can have fewer batches than another worker's."""
        return self.by != "batch"

    def __len__(self) -> int:
        if self.may_end_alone and self._passes.begin is not None:
            raise TypeError(f"the number of batches is not known before the data has been read: sharded by {self.by}")
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"ShardedDataset({self.dataset!r}, by={self.by!r})"


def is_pass(value: Any) -> bool:
    """Whether it is an iterator over a sharded dataset."""
    return isinstance(value, GeneratorType) and value.gi_code is ShardedDataset.__iter__.__code__


def shard_dataset(
    dataset: Any, shares: WorkerShares, *, by: ShardBy = "auto", passes: DatasetPasses | None = None
) -> ShardedDataset:
    """This worker's part of a dataset.

    Args:
        dataset: A ``tf.data.Dataset`` whose elements are global batches, the same and in the same order on all workers.
        shares: The part of each worker.
        by: See :meth:`autodist.AutoDist.shard`.
        passes: The callbacks of loops over the result.

    Raises:
        UsageError: It is not a dataset, its elements are not batches, or it can't be sharded like that.
    """
    import tensorflow as tf

    if by not in _ALLOWED:
        raise UsageError(f"`by` is {by!r}, allowed: {', '.join(map(repr, _ALLOWED))}")
    if isinstance(dataset, ShardedDataset):
        return _as_it_is(dataset, by)
    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(
            f"`shard` was given a {type(dataset).__name__}, it takes a tf.data.Dataset",
            hint="make one: `tf.data.Dataset.from_tensor_slices((x, y)).batch(64)`",
        )
    return _sharded(dataset, shares, by, passes)


def _sharded(dataset: Any, shares: WorkerShares, by: ShardBy, passes: DatasetPasses | None) -> ShardedDataset:
    import tensorflow as tf

    sharded = partial(ShardedDataset, passes=passes, has_open_rows=has_open_rows(dataset.element_spec))
    if shares.is_alone and by in ("auto", "batch"):
        specs = tf.nest.flatten(dataset.element_spec)
        split = tuple(isinstance(spec, tf.TensorSpec) and spec.shape.rank != 0 for spec in specs)
        return sharded(read_ahead(dataset), split)
    split = which_are_batches(dataset)
    if by in ("element", "file"):
        pipeline = read_pipeline(dataset)
        _check_pipeline(pipeline, shares, by)
        if not shares.is_all:
            read = _blocks_read(pipeline, shares)
            parts, done = _read_apart(pipeline, shares, by, read)
            options = (_in_order(dataset) if done == "element" else dataset).options()
            return sharded(parts.with_options(options), split, done, read=read)
    if shares.is_all:
        return sharded(read_ahead(dataset), split)
    _check_order(dataset)
    return sharded(_rows_of_batches(_in_order(dataset), split, shares), split)


def _as_it_is(dataset: ShardedDataset, by: str) -> ShardedDataset:
    if by not in ("auto", dataset.by):
        raise UsageError(f"the dataset is sharded by {dataset.by} already, it can't be sharded by {by}")
    return dataset


def _check_order(dataset: Any) -> None:
    """All workers must find the same elements in the same order where each takes some of them."""
    if of_service(dataset):
        raise UsageError(
            "`shard` was given a dataset of tf.data's service, which divides elements in no certain order: it is not "
            "known which worker gets which",
            hint="have the service divide them: `processing_mode='distributed_epoch'` or a dynamic sharding policy, "
            "a `job_name`, and `autodist.scope(batch='local')` with a loop over the dataset itself",
        )
    operation = of_no_order(dataset)
    if operation is not None:
        raise UsageError(
            f"`shard` was given a dataset whose {operation} has `deterministic=False`: each worker gets another order, "
            "and elements would be lost",
            hint="leave `deterministic` out; or, if it comes after the source of a dataset, `shard(..., "
            "by='element')` or `by='file'`",
        )
    if has_unseeded_shuffle(dataset):
        raise UsageError(
            "`shard` was given a dataset that is shuffled without a seed, each worker has another order",
            hint="`shuffle(..., seed=0)`, or `autodist run --seed`, which seeds everything",
        )


def _in_order(dataset: Any) -> Any:
    """The dataset without the option to give elements in another order on each worker."""
    import tensorflow as tf

    if dataset.options().deterministic is not False:
        return dataset
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


def _check_pipeline(pipeline: Pipeline, shares: WorkerShares, by: str) -> None:
    if by == "file" and pipeline.files is None:
        raise UsageError(
            f"`shard(by='file')` was given a dataset that is made of a {name_of(pipeline.source)}, not of files",
            hint="files are read by tf.data.TFRecordDataset, TextLineDataset and FixedLengthRecordDataset, also inside "
            "`interleave` and `flat_map`; after that come `map`, `filter`, `shuffle`, `cache`, `repeat`, `prefetch` "
            "and `batch` only; or `by='element'`",
        )
    if pipeline.batch_size < sum(shares.replicas):
        raise UsageError(
            f"a global batch has {pipeline.batch_size} examples, too few for the {sum(shares.replicas)} replicas to "
            f"read their own part of the data by {by}",
            hint="make larger batches, or `by='batch'`",
        )


def _rows_of_batches(dataset: Any, split: tuple[bool, ...], shares: WorkerShares) -> Any:
    """This worker's rows of each global batch, and a note of the batch: a hash, and its numbers of rows."""
    import tensorflow as tf

    drawn = drawn_parts(dataset)

    @tf.autograph.experimental.do_not_convert
    def part(*element: Any) -> Any:
        structure = element if isinstance(dataset.element_spec, tuple) else element[0]
        tensors = tf.nest.flatten(structure)
        sizes = [tf.shape(tensor)[0] for tensor, is_batch in zip(tensors, split, strict=True) if is_batch]
        start, stop = shares.rows(sizes[0], tf.minimum)
        rows = [tensor[start:stop] if is_batch else tensor for tensor, is_batch in zip(tensors, split, strict=True)]
        same = [tensor for tensor, is_drawn in zip(tensors, drawn, strict=True) if not is_drawn]
        note = [hashed_in_graph(same), *(tf.cast(size, tf.int64) for size in sizes)]
        return with_note(tf.nest.pack_sequence_as(structure, rows), tf.stack(note))

    parts = dataset.map(part)
    return parts if reads_variables(dataset) else parts.prefetch(tf.data.AUTOTUNE)


def _blocks_read(pipeline: Pipeline, shares: WorkerShares) -> BlocksRead:
    listed = 0 if pipeline.files is None else hashed_names(pipeline.files)
    if len(shares.readers) < len(shares.replicas):
        return BlocksRead(listed, most_passes=0)  # a worker without replicas reads nothing
    return BlocksRead(listed, most_passes=1 if pipeline.has_cache else None)


def _read_apart(pipeline: Pipeline, shares: WorkerShares, by: str, read: BlocksRead) -> tuple[Any, str]:
    """A dataset of this worker's part of the data, and how it was cut out."""
    start, stop = shares.rows(pipeline.batch_size)
    if by == "file" and not _has_files_for(pipeline, shares):
        by = "element"
    if by == "element":
        _check_order(pipeline.source)
    if start == stop:
        source = pipeline.source.take(0).filter(lambda *element: True)  # so that Keras does not count it
    elif by == "file":
        source = _of_files(pipeline.source, len(shares.readers), shares.readers.index(shares.rank))
    else:
        source = of_elements(pipeline.source, pipeline.batch_size, start, stop, read)
    return read_ahead(pipeline.on(source, max(stop - start, 1))), by


def _has_files_for(pipeline: Pipeline, shares: WorkerShares) -> bool:
    wanted = len(shares.readers)
    found = sum(1 for _ in pipeline.files.take(wanted))
    if found < wanted and shares.rank == 0:
        files, workers = ("file" if found == 1 else "files"), f"{wanted} workers"
        _LOG.info("the dataset has %d %s for %s: it is sharded by element instead of by file", found, files, workers)
    return found >= wanted


def _of_files(source: Any, count: int, index: int) -> Any:
    """Every `count`-th file of a source; a shuffle of the files comes afterwards, so that no seed is needed."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import distribute

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    return distribute._AutoShardDataset(source.with_options(options), count, index)
