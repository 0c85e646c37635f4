"""Sharded datasets: each worker reads its part of every global batch, or of the data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import GeneratorType
from typing import Any, Literal

import numpy as np

from autodist.errors import UsageError
from autodist.runtime.data._batch import GlobalArray, LocalArray, WholeArray, WorkerShares, has_parts
from autodist.runtime.data._batch_notes import refuse_rows, warn_of_rows, with_note, without_note
from autodist.runtime.data._dataset_ends import DatasetEnds, going_on_together
from autodist.runtime.data._dataset_structure import (
    Pipeline,
    batched_sizes,
    check_order,
    name_of,
    read_ahead,
    read_pipeline,
    reads_variables,
)
from autodist.runtime.data._dealt_elements import BlocksRead, PassRead
from autodist.runtime.data._declared import NOTHING_DECLARED, Declared
from autodist.runtime.data._elements import check_dense, which_are_batches
from autodist.runtime.data._fingerprints import hashed_in_graph
from autodist.runtime.data._random_maps import drawn_parts
from autodist.runtime.data._read_apart import blocks_read, read_apart
from autodist.runtime.data.composites import is_composite_spec

_LOG = logging.getLogger("autodist")
_UNLIKE_ROWS = "unlike rows"
_ALLOWED = ("auto", "batch", "element", "file")

ShardBy = Literal["auto", "batch", "element", "file"]


@dataclass(frozen=True)
class DatasetPasses:
    """Callbacks by which the loops over a sharded dataset reach the engine.

    Attributes:
        handed_out: Called with True before a loop over the dataset gets a batch, with False when the loop ends.
        begin: Makes the ends of a new pass; None where there is one worker only.
        check: Refuses strategies that don't allow parts of different lengths.
        told: What was said already, and is said once for all datasets of a scope.
    """

    handed_out: Callable[[bool], None] = lambda _: None
    begin: Callable[[], DatasetEnds] | None = None
    check: Callable[[], None] = lambda: None
    told: set[str] = field(default_factory=set)


class ShardedDataset:
    """A dataset of global batches, of which each worker gets its own rows, or a dataset of its own part of the data.

    Iterating yields NumPy arrays of the type :class:`LocalArray`, by which a step knows that they are a part; all parts
    together are the global batch. A worker whose part is empty still takes that step with the others. What is no batch
    comes whole, as a :class:`WholeArray`, and so does all of an element whose batches have unlike numbers of rows, or
    that has a ragged or sparse tensor. These stay what they are, and the others are of the type :class:`GlobalArray`.

    Attributes:
        dataset: The ``tf.data.Dataset`` of this worker's parts.
        split: Per tensor of an element, whether it is a batch.
        by: ``"batch"``, ``"element"`` or ``"file"``.
        declared: The shapes of the global batches.

    Args:
        dataset: As in the attribute, like `split`, `by` and `declared`.
        passes: The callbacks of loops over it; None for a dataset without an engine.
        read: What each pass has read of its source, where workers compare that.
        tells_of_whole: Whether it says that elements come whole, if some do.
        is_global: Whether all workers get whole elements, as those with ragged or sparse tensors.
    """

    def __init__(
        self,
        dataset: Any,
        split: tuple[bool, ...],
        by: str = "batch",
        passes: DatasetPasses | None = None,
        read: BlocksRead | None = None,
        *,
        declared: Declared = NOTHING_DECLARED,
        tells_of_whole: bool = False,
        is_global: bool = False,
    ) -> None:
        self.dataset = dataset
        self.split = split
        self.by = by
        self.declared = declared
        self._passes = DatasetPasses() if passes is None else passes
        self._read = read
        self._note: int | None = None
        self._tells_of_whole = tells_of_whole
        self._is_global = is_global

    def __iter__(self) -> Iterator[Any]:
        try:
            for element in self.batches():
                arrays = self.arrays(element)
                self._passes.handed_out(has_parts(arrays))
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
        batches = [tensor for tensor, is_split in zip(tensors, self.split, strict=False) if is_split]
        rows = [] if self._is_global else list(map(len, batches))
        if note is not None:
            note, *rows = note.numpy().tolist()
        is_unlike = len(set(rows)) > 1
        if is_unlike:
            self._tell_of_whole(element, rows)
        part: type[np.ndarray] = WholeArray if is_unlike else GlobalArray if self._is_global else LocalArray
        kinds = [part if is_split else WholeArray for is_split in self.split]
        kinds += [part] * (len(tensors) - len(kinds))
        arrays = [
            np.asarray(tensor._numpy()).view(kind) if isinstance(tensor, tf.Tensor) else tensor
            for tensor, kind in zip(tensors, kinds, strict=True)
        ]
        for array in arrays:
            if isinstance(array, LocalArray | WholeArray):
                array.note = self._note if note is None and isinstance(array, LocalArray) else note
                array.rows = rows[0] if rows else None
        return tf.nest.pack_sequence_as(element, arrays)

    def _tell_of_whole(self, element: Any, rows: Sequence[int]) -> None:
        """Say once that elements come whole, or refuse them where workers read their parts of the data by themselves.

        Raises:
            UsageError: They do.
        """
        if self.may_end_alone:
            refuse_rows(element, self.split, rows)
        if self._tells_of_whole and _UNLIKE_ROWS not in self._passes.told:
            self._passes.told.add(_UNLIKE_ROWS)
            warn_of_rows(element, self.split, rows)

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

    tells = shares.rank == 0 and not shares.is_alone
    declared = Declared.of(dataset.element_spec)
    sharded = partial(ShardedDataset, passes=passes, declared=declared, tells_of_whole=tells)
    specs = tf.nest.flatten(dataset.element_spec)
    if shares.is_alone and by in ("auto", "batch"):
        split = tuple(isinstance(spec, tf.TensorSpec) and spec.shape.rank != 0 for spec in specs)
        return sharded(read_ahead(dataset), split)
    split = which_are_batches(dataset)
    if by in ("element", "file"):
        check_dense(dataset.element_spec, by)
        pipeline = read_pipeline(dataset)
        _check_pipeline(pipeline, shares, by)
        if not shares.is_all:
            read = blocks_read(pipeline, shares)
            parts, done = read_apart(pipeline, shares, by, read)
            options = (_in_order(dataset) if done == "element" else dataset).options()
            return sharded(parts.with_options(options), split, done, read=read)
    comes_whole = any(map(is_composite_spec, specs)) or _has_few_rows(dataset, split, shares)
    if shares.is_all:
        return sharded(read_ahead(dataset), split, is_global=comes_whole)
    check_order(dataset)
    if comes_whole:
        return sharded(read_ahead(_in_order(dataset)), split, is_global=True)
    return sharded(_rows_of_batches(_in_order(dataset), split, shares), split)


def _has_few_rows(dataset: Any, split: tuple[bool, ...], shares: WorkerShares) -> bool:
    """Whether its batches are known to have fewer rows than there are replicas, which may then share each example."""
    import tensorflow as tf

    pairs = zip(tf.nest.flatten(dataset.element_spec), split, strict=True)
    rows = {spec.shape[0] for spec, is_batch in pairs if is_batch}
    sizes = batched_sizes(dataset) if None in rows else rows
    return len(sizes) == 1 and 0 < max(sizes) < sum(shares.replicas)


def _as_it_is(dataset: ShardedDataset, by: str) -> ShardedDataset:
    if by not in ("auto", dataset.by):
        raise UsageError(f"the dataset is sharded by {dataset.by} already, it can't be sharded by {by}")
    return dataset


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
        are_alike = tf.reduce_all(tf.equal(sizes, sizes[0]))
        start, stop = tf.where(are_alike, start, 0), tf.where(are_alike, stop, tf.reduce_max(sizes))
        rows = [tensor[start:stop] if is_batch else tensor for tensor, is_batch in zip(tensors, split, strict=True)]
        same = [tensor for tensor, is_drawn in zip(tensors, drawn, strict=True) if not is_drawn]
        note = [hashed_in_graph(same), *(tf.cast(size, tf.int64) for size in sizes)]
        return with_note(tf.nest.pack_sequence_as(structure, rows), tf.stack(note))

    parts = dataset.map(part)
    return parts if reads_variables(dataset) else parts.prefetch(tf.data.AUTOTUNE)
