"""The structure of a dataset: where its elements come from, and how to build the rest upon a part of them.

TensorFlow has no public way to take a pipeline apart; what is read here is the Python objects of its operations.
Nothing is taken apart beyond an unknown operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autodist.errors import UsageError

_READERS = ("TFRecordDatasetV2", "TextLineDatasetV2", "FixedLengthRecordDatasetV2")
_OVER_FILES = ("_InterleaveDataset", "_ParallelInterleaveDataset", "_FlatMapDataset")
_BATCHINGS = ("_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset")


@dataclass(frozen=True)
class Pipeline:
    """A dataset taken apart.

    Attributes:
        source: The dataset of single elements that the rest is built on: each of its elements makes, on its own, an
            element of a batch, or none.
        before: The operations between the source and the batches, from the source on.
        batching: The operation that makes batches.
        after: The operations on batches.
    """

    source: Any
    before: tuple[Any, ...]
    batching: Any
    after: tuple[Any, ...]

    @property
    def batch_size(self) -> int:
        """Elements of a batch."""
        return int(self.batching._batch_size)

    @property
    def has_cache(self) -> bool:
        """Whether a later pass may find elements in a cache instead of the source."""
        return any(type(node).__name__ == "CacheDataset" for node in (*self.before, *self.after))

    @property
    def files(self) -> Any:
        """The dataset of names of files that the source reads, None where it reads none."""
        kind = type(self.source).__name__
        if kind in _READERS:
            return self.source._filenames
        if kind not in _OVER_FILES or not _is_name(self.source._input_dataset.element_spec):
            return None
        return self.source._input_dataset if _is_reading(self.source) else None

    def on(self, source: Any, batch_size: int) -> Any:
        """The same dataset on another source, with batches of another size."""
        for node in self.before:
            source = _REBUILT[type(node).__name__](node, source)
        source = _batched(self.batching, source, batch_size)
        for node in self.after:
            source = _REBUILT[type(node).__name__](node, source)
        return source


def read_pipeline(dataset: Any) -> Pipeline:
    """Take a dataset apart.

    Raises:
        UsageError: It is not known what makes its batches.
    """
    after: list[Any] = []
    node = dataset
    while type(node).__name__ not in _BATCHINGS:
        if not _is_known(node):
            raise UsageError(
                f"`shard` can't see how the dataset makes batches: a {name_of(node)} follows them",
                hint="let `batch` or `padded_batch` be the last operation, followed by `map`, `prefetch` and `repeat` "
                'at most; or `shard(dataset, by="batch")`',
            )
        after.insert(0, node)
        node = node._input_dataset
    _check_after(node, after)
    batching = node
    before: list[Any] = []
    node = node._input_dataset
    while _is_known(node):
        before.insert(0, node)
        node = node._input_dataset
    return Pipeline(node, tuple(before), batching, tuple(after))


def has_unseeded_shuffle(dataset: Any) -> bool:
    """Whether another process would get the elements in another order, as far as can be seen."""
    draws = ("_ShuffleDataset", "_RandomDataset")
    return any(type(n).__name__ in draws and not int(n._seed) and not int(n._seed2) for n in _nodes(dataset))


def batched_sizes(dataset: Any) -> set[int]:
    """The sizes of batches that operations of a dataset make."""
    return {int(node._batch_size) for node in _nodes(dataset) if type(node).__name__ in _BATCHINGS}


def of_no_order(dataset: Any) -> str | None:
    """The operation whose option lets elements come in another order on each worker; None if there is none."""
    return next((name_of(node) for node in _nodes(dataset) if _takes_what_is_ready(node)), None)


def of_service(dataset: Any) -> bool:
    """Whether elements come from tf.data's service."""
    return any(type(node).__name__.startswith("_DataServiceDataset") for node in _nodes(dataset))


def _nodes(dataset: Any) -> Iterator[Any]:
    """A dataset and all datasets that it is made from."""
    yield dataset
    for source in dataset._inputs():
        yield from _nodes(source)


def _takes_what_is_ready(node: Any) -> bool:
    if type(node).__name__ == "_ParallelInterleaveDataset":
        return "false" in _orders_in_graph(node)
    return getattr(node, "_deterministic", None) == "false"


def _orders_in_graph(node: Any) -> set[str]:
    """The values of `deterministic` up to a node in the serialized graph; this kind's Python object lacks it."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.data.ops.options import ExternalStatePolicy

    try:
        serialized = node._as_serialized_graph(external_state_policy=ExternalStatePolicy.IGNORE).numpy()
    except tf.errors.OpError:  # what can't be serialized is not looked into
        return set()
    graph = graph_pb2.GraphDef.FromString(serialized)
    nodes = [*graph.node, *(n for function in graph.library.function for n in function.node_def)]
    return {n.attr["deterministic"].s.decode() for n in nodes if "deterministic" in n.attr}


def captured_resources(dataset: Any) -> Iterator[Any]:
    """The handles of variables, and of tables, that functions of a dataset use."""
    import tensorflow as tf

    for wrapped in dataset._functions():
        yield from (captured for captured in wrapped.function.captured_inputs if captured.dtype == tf.resource)
    for source in dataset._inputs():
        yield from captured_resources(source)


def read_ahead(dataset: Any) -> Any:
    """The same dataset, whose next elements are made while the program does something with this one.

    One that reads variables stays as it is: it is to see what the step before has made of them.
    """
    import tensorflow as tf

    is_ahead = name_of(dataset) == "PrefetchDataset"
    return dataset if is_ahead or reads_variables(dataset) else dataset.prefetch(tf.data.AUTOTUNE)


def reads_variables(dataset: Any) -> bool:
    """Whether functions of a dataset read variables."""
    return any(_is_variable(handle) for handle in captured_resources(dataset))


def _is_variable(handle: Any) -> bool:
    known = getattr(handle, "_handle_data", None)
    return known is not None and bool(known.is_set)


def _check_after(batching: Any, after: list[Any]) -> None:
    """Refuse functions of batches that were traced for the size of whole batches, as with `drop_remainder`."""
    mapped = any(hasattr(node, "_map_func") or hasattr(node, "_predicate") for node in after)
    if mapped and bool(batching._drop_remainder):
        raise UsageError(
            "`shard` was given a dataset with a `map` or `filter` of batches of a fixed size, which parts don't have",
            hint='call `batch` without `drop_remainder`, or `map` before `batch`; or `shard(dataset, by="batch")`',
        )


def _is_known(node: Any) -> bool:
    if type(node).__name__ == "CacheDataset":
        return bool(node._filename.numpy() == b"")  # a file of its own is needed for each worker otherwise
    return type(node).__name__ in _REBUILT


def name_of(node: Any) -> str:
    """TensorFlow's name for a kind of dataset."""
    return type(node).__name__.strip("_")


def _is_name(spec: Any) -> bool:
    import tensorflow as tf

    return isinstance(spec, tf.TensorSpec) and spec.shape.rank == 0 and spec.dtype == tf.string


def _is_reading(node: Any) -> bool:
    """Whether a function of names of files opens them by a reader of TensorFlow's."""
    functions = [node._map_func.function.graph.as_graph_def(add_shapes=False)]
    ops = {n.op for graph in functions for n in graph.node}
    ops |= {n.op for graph in functions for function in graph.library.function for n in function.node_def}
    return any(op.startswith(("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")) for op in ops)


# Building again --------------------------------------------------------------------------------------------------


def _batched(node: Any, source: Any, size: int) -> Any:
    drop = bool(node._drop_remainder)
    if type(node).__name__ == "_PaddedBatchDataset":
        return source.padded_batch(size, node._padded_shapes, node._padding_values, drop)
    if type(node).__name__ == "_ParallelBatchDataset":
        deterministic = {"true": True, "false": False}.get(node._deterministic)
        return source.batch(size, drop, num_parallel_calls=node._num_parallel_calls, deterministic=deterministic)
    return source.batch(size, drop)


def _made(node: Any, source: Any, variant: Any) -> Any:
    """A dataset of the kind of `node`, which lives as long: its functions belong to it."""
    from tensorflow.python.data.ops import dataset_ops

    class Made(dataset_ops.UnaryDataset):
        def __init__(self) -> None:
            self._node = node
            super().__init__(source, variant)

        @property
        def element_spec(self) -> Any:
            return self._node.element_spec

    return Made()


def _mapped(node: Any, source: Any) -> Any:
    from tensorflow.python.ops import gen_dataset_ops

    function = node._map_func.function
    variant = gen_dataset_ops.map_dataset(
        source._variant_tensor,
        function.captured_inputs,
        f=function,
        use_inter_op_parallelism=node._use_inter_op_parallelism,
        preserve_cardinality=node._preserve_cardinality,
        force_synchronous=node._force_synchronous,
        **node._common_args,
    )
    return _made(node, source, variant)


def _mapped_in_parallel(node: Any, source: Any) -> Any:
    from tensorflow.python.ops import gen_dataset_ops

    function = node._map_func.function
    variant = gen_dataset_ops.parallel_map_dataset_v2(
        source._variant_tensor,
        function.captured_inputs,
        f=function,
        num_parallel_calls=node._num_parallel_calls,
        deterministic=node._deterministic,
        use_inter_op_parallelism=node._use_inter_op_parallelism,
        preserve_cardinality=node._preserve_cardinality,
        use_unbounded_threadpool=node._use_unbounded_threadpool,
        **node._common_args,
    )
    return _made(node, source, variant)


def _filtered(node: Any, source: Any) -> Any:
    from tensorflow.python.ops import gen_dataset_ops

    function = node._predicate.function
    variant = gen_dataset_ops.filter_dataset(
        source._variant_tensor, other_arguments=function.captured_inputs, predicate=function, **node._common_args
    )
    return _made(node, source, variant)


def _shuffled(node: Any, source: Any) -> Any:
    from tensorflow.python.ops import gen_dataset_ops

    variant = gen_dataset_ops.shuffle_dataset_v3(
        source._variant_tensor,
        buffer_size=node._buffer_size,
        seed=node._seed,
        seed2=node._seed2,
        seed_generator=gen_dataset_ops.dummy_seed_generator(),
        reshuffle_each_iteration=node._reshuffle_each_iteration is not False,
        **node._common_args,
    )
    return _made(node, source, variant)


_REBUILT: dict[str, Callable[[Any, Any], Any]] = {
    "_MapDataset": _mapped,
    "_ParallelMapDataset": _mapped_in_parallel,
    "_FilterDataset": _filtered,
    "_ShuffleDataset": _shuffled,
    "CacheDataset": lambda node, source: source.cache(),
    "_OptionsDataset": lambda node, source: source.with_options(node.options()),
    "_PrefetchDataset": lambda node, source: source.prefetch(int(node._buffer_size)),
    "_RepeatDataset": lambda node, source: source.repeat(int(node._count)),
}


def check_order(dataset: Any) -> None:
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
