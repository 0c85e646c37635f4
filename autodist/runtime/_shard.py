"""Sharded datasets: each worker reads its part of every global batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autodist.errors import UsageError
from autodist.runtime._batch import LocalArray, part_of

__all__ = ["ShardedDataset", "shard_dataset"]


class ShardedDataset:
    """A dataset of global batches, of which each worker gets its own rows.

    Iterating yields NumPy arrays of the type :class:`LocalArray`, by which a step knows that they are a part. Worker
    parts are contiguous and in rank order, so that all parts together are the global batch as one device sees it; a
    worker whose part of the last batch is empty still takes that step with the others.

    Attributes:
        dataset: The ``tf.data.Dataset`` of this worker's parts.
    """

    def __init__(self, dataset: Any, handed_out: Callable[[bool], None] = lambda _: None) -> None:
        self.dataset = dataset
        self._handed_out = handed_out

    def __iter__(self) -> Iterator[Any]:
        import tensorflow as tf

        try:
            for element in self.dataset:
                local = tf.nest.map_structure(_local, element)
                self._handed_out(True)
                yield local
        finally:
            self._handed_out(False)

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"ShardedDataset({self.dataset!r})"


def _local(tensor: Any) -> np.ndarray:
    return np.asarray(tensor._numpy()).view(LocalArray)


def shard_dataset(
    dataset: Any,
    *,
    num_replicas: int,
    first_replica: int,
    num_local: int,
    handed_out: Callable[[bool], None] = lambda _: None,
) -> ShardedDataset:
    """This worker's part of each batch of a dataset.

    Args:
        dataset: A ``tf.data.Dataset`` whose elements are global batches, the same and in the same order on all workers.
        num_replicas: Replicas of all workers.
        first_replica: Global number of this worker's first replica.
        num_local: Replicas of this worker.
        handed_out: Called with True before the loop over the result gets a batch, with False when the loop ends.

    Raises:
        UsageError: It is no dataset, or its elements are no batches.
    """
    import tensorflow as tf

    if isinstance(dataset, ShardedDataset):
        return dataset
    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(
            f"`shard` was given a {type(dataset).__name__}, it takes a tf.data.Dataset",
            hint="make one: `tf.data.Dataset.from_tensor_slices((x, y)).batch(64)`",
        )
    specs = tf.nest.flatten(dataset.element_spec)
    if any(not isinstance(spec, tf.TensorSpec) or spec.shape.rank == 0 for spec in specs):
        raise UsageError(
            f"`shard` was given a dataset of {dataset.element_spec}, its elements must be batches of dense tensors",
            hint="call `dataset.batch(size)` before `shard`",
        )
    if num_local == num_replicas:
        return ShardedDataset(dataset, handed_out)

    def part(*element: Any) -> Any:
        structure = element if len(element) > 1 or isinstance(dataset.element_spec, tuple) else element[0]
        size = tf.shape(tf.nest.flatten(structure)[0])[0]
        start, stop = part_of(size, num_replicas, first_replica, first_replica + num_local, tf.minimum)
        return tf.nest.map_structure(lambda tensor: tensor[start:stop], structure)

    return ShardedDataset(dataset.map(part).prefetch(tf.data.AUTOTUNE), handed_out)
