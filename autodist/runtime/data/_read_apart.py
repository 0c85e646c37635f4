"""How a worker reads its own part of the data of a dataset: every other element, or files of its own."""

from __future__ import annotations

import logging
from typing import Any

from autodist.runtime.data._batch import WorkerShares
from autodist.runtime.data._dataset_structure import Pipeline, check_order, read_ahead
from autodist.runtime.data._dealt_elements import BlocksRead, of_elements
from autodist.runtime.data._fingerprints import hashed_names

_LOG = logging.getLogger("autodist")


def blocks_read(pipeline: Pipeline, shares: WorkerShares) -> BlocksRead:
    listed = 0 if pipeline.files is None else hashed_names(pipeline.files)
    if len(shares.readers) < len(shares.replicas):
        return BlocksRead(listed, most_passes=0)  # a worker without replicas reads nothing
    return BlocksRead(listed, most_passes=1 if pipeline.has_cache else None)


def read_apart(pipeline: Pipeline, shares: WorkerShares, by: str, read: BlocksRead) -> tuple[Any, str]:
    """A dataset of this worker's part of the data, and how it was cut out."""
    start, stop = shares.rows(pipeline.batch_size)
    if by == "file" and not _has_files_for(pipeline, shares):
        by = "element"
    if by == "element":
        check_order(pipeline.source)
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
