"""Messages for each shard, before senders and receivers are known."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from autodist.cost import Share, shares_of
from autodist.errors import StrategyError
from autodist.strategies._encoders import encoder_of
from autodist.strategies._shard_messages import ShardMessages, host_of
from autodist.strategies._shards import ShardSlice, shard_slices
from autodist.strategies._strategy import ShardConfig, Strategy, VariableConfig, is_factors
from autodist.strategies._tile_costs import tile_costs
from autodist.strategies.synchronizers import AllReduceSynchronizer

if TYPE_CHECKING:
    from autodist.compressors import Compressor
    from autodist.graph import TrainingGraph, Variable, VariableUse

_ROWS_BYTES = 12  # the number of examples of a worker, and two numbers that represent the batch, float32


def shares(
    strategy: Strategy, hosts: tuple[str, ...], batch_size: int, *, of_examples: bool = False
) -> dict[str, Share]:
    """The share of each host; see :func:`~autodist.cost.shares_of`.

    Example:
        >>> from autodist.strategies import GraphConfig
        >>> strategy = Strategy(GraphConfig(("a:CPU:0", "a:CPU:1", "b:CPU:0"), "tcp"), ())
        >>> shares(strategy, ("a", "b"), 8)
        {'a': Share(examples=6, replicas=2), 'b': Share(examples=2, replicas=1)}
    """
    owners = Counter(map(host_of, strategy.graph.replicas))
    return shares_of({host: owners[host] for host in hosts}, batch_size, of_examples=of_examples)


def shard_messages(
    strategy: Strategy, graph: TrainingGraph, batch_size: int, rows: Mapping[str, int]
) -> Iterator[ShardMessages]:
    """The messages of every shard of the strategy, as far as its variables and partitions fit the graph."""
    known = {variable.name: variable for variable in graph.trainable}
    tiled = tile_costs(strategy, graph, batch_size)
    for config in strategy.variables:
        if config.variable in known:
            variable = known[config.variable]
            examples = batch_size / max(len(strategy.graph.replicas), 1)
            use = _scaled(graph.uses[variable.name], rows.get(variable.name), batch_size, examples)
            alike: dict[tuple[int, tuple[int, ...]], ShardMessages] = {}  # many shards of a variable are alike
            for number, shard, part in _parts_of(config, variable):
                if (id(shard), part.size) not in alike:
                    message = _of_shard(shard, variable, part.size, use, graph)
                    sent = message.synchronizer.sent(message, strategy.graph, use.use.later_reads)
                    alike[id(shard), part.size] = tiled.added_to(sent)
                found = alike[id(shard), part.size]
                yield found if number is None else found.changed(shard=number)


def state_messages(strategy: Strategy, graph: TrainingGraph) -> ShardMessages:
    """The messages besides gradients: the batch size, statistics of the batch, losses and other outputs."""
    statistics = sum(v.size_bytes for v in graph.variables if v.role.value == "statistic")
    shapes = [(o.shape, _itemsize(o.dtype)) for o in graph.outputs if o.shape is not None]
    scalars = sum(prod(size or 0 for size in shape) * itemsize for shape, itemsize in shapes if None not in shape)
    by_example = [(shape[1:], itemsize) for shape, itemsize in shapes if shape and shape[0] is None]
    row_bytes = sum(prod(size or 0 for size in shape) * itemsize for shape, itemsize in by_example)
    return ShardMessages(
        "",
        None,
        AllReduceSynchronizer(0, communicator=strategy.graph.communicator),
        summed_bytes=_ROWS_BYTES + statistics + scalars,
        gathered_rows=1.0 if row_bytes else 0.0,
        gathered_row_bytes=row_bytes,
    )


@dataclass(frozen=True)
class _Rows:
    """A variable's :class:`~autodist.graph.VariableUse` with the rows that the caller knows better."""

    use: VariableUse
    lookup: float
    gradient: float


def _scaled(use: VariableUse, given: int | None, batch_size: int, examples: float) -> _Rows:
    """Rows for each example; a replica's fixed number of rows is divided by its number of `examples`."""
    if given is None:
        lookup = use.lookup_rows + use.fixed_lookup_rows / examples
        return _Rows(use, lookup, use.gradient_rows + use.fixed_gradient_rows / examples)
    per_example = given / batch_size
    has_lookups, has_rows = use.lookup_rows or use.fixed_lookup_rows, use.gradient_rows or use.fixed_gradient_rows
    return _Rows(use, per_example if has_lookups else 0.0, per_example if has_rows else 0.0)


def _parts_of(config: VariableConfig, variable: Variable) -> Iterator[tuple[int | None, ShardConfig, ShardSlice]]:
    try:
        slices = shard_slices(config.partition, variable.shape)
    except ValueError:
        return  # there are no shards: verification refuses the partition
    for number, (shard, part) in enumerate(zip(config.shards, slices, strict=False)):
        yield None if config.partition is None else number, shard, part


def _of_shard(
    shard: ShardConfig, variable: Variable, shape: tuple[int, ...], rows: _Rows, graph: TrainingGraph
) -> ShardMessages:
    # Each shard has its part of the rows that a step touches, and its rows are as wide as the shard.
    fraction = shape[0] / variable.shape[0] if variable.shape and variable.shape[0] else 1.0
    itemsize = _itemsize(variable.dtype)
    row_bytes = prod(shape[1:]) * itemsize
    dense = sum(not gradient.is_sparse for gradient in variable.gradients)
    summed, gathered, gathered_rows = 0.0, 0.0, rows.gradient * fraction
    is_guess, dtype, index_bytes, rebuilt_flops = rows.use.is_guess, variable.dtype, 0, 0.0
    if shard.synchronizer.sends_factors or is_factors(shard.compressor):
        gathered_rows, gathered_row_bytes, is_guess = _factors(graph, variable, itemsize)
        rebuilt_flops = 2 * gathered_rows * prod(shape) if shard.synchronizer.sends_factors else 0.0
    else:
        message = _message(shard.compressor, shape, variable.dtype)
        summed, gathered = (0.0, dense * message.size_bytes) if message.gathers else (dense * message.size_bytes, 0.0)
        values = _message(shard.compressor, (1, *shape[1:]), variable.dtype, slices=True)
        gathered_row_bytes, index_bytes = values.size_bytes + rows.use.index_bytes, rows.use.index_bytes
        dtype = message.dtype
    return ShardMessages(
        variable.name,
        None,
        shard.synchronizer,
        shape,
        prod(shape) * itemsize,
        summed,
        shard.compressor is not None,
        gathered,
        gathered_rows,
        gathered_row_bytes if gathered_rows else 0.0,
        rows.use.reads,
        rows.lookup * fraction,
        row_bytes,
        rows.use.index_bytes,
        rows.gradient,
        is_guess,
        gathered_index_bytes=index_bytes if gathered_rows else 0,
        is_gradient_coded=dtype == "float32",
        is_value_coded=variable.dtype == "float32",
        rebuilt_flops=rebuilt_flops,
    )


def _factors(graph: TrainingGraph, variable: Variable, itemsize: int) -> tuple[float, float, bool]:
    """Rows per example, bytes per row on average, and whether the rows are a guess, of a gradient's factors."""
    from autodist.graph import factors_of

    factors = factors_of(graph, variable.name)
    rows = float(factors.rows_per_example or 1)
    row_bytes = factors.bytes_per_example / rows or float(sum(variable.shape) * itemsize)
    return rows, row_bytes, factors.rows_per_example is None


@dataclass(frozen=True)
class _Message:
    size_bytes: float
    gathers: bool
    dtype: str
    """The dtype of the tensors that are summed; empty where encoded messages are gathered."""


def _message(compressor: str | None, shape: tuple[int, ...], dtype: str, *, slices: bool = False) -> _Message:
    """The message for a gradient of this shape, or for values of its rows; not encoded if that is impossible."""
    encoder = _encoder(compressor, shape, dtype)
    if encoder is None or (slices and not encoder.encodes_slices):
        return _Message(float(prod(shape) * _itemsize(dtype)), False, dtype)
    summed = "" if encoder.gathers else encoder.summed_dtype(dtype)
    return _Message(float(encoder.message_bytes(shape, dtype)), encoder.gathers, summed)


def _encoder(compressor: str | None, shape: tuple[int, ...], dtype: str) -> Compressor | None:
    if compressor is None:
        return None
    from autodist.compressors import FLOATS

    try:
        encoder = encoder_of(compressor)
    except StrategyError:  # verification refuses it
        return None
    return encoder if dtype in FLOATS and encoder.refusal(shape, dtype) is None else None


@functools.cache
def _itemsize(dtype: str) -> int:
    import numpy as np  # code that only lists strategies need not import it

    return {"bfloat16": 2, "string": 8, "variant": 8}.get(dtype) or np.dtype(dtype).itemsize
