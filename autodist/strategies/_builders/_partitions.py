"""How builders split variables: which of them, and into how many parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition

MIN_SHARD_BYTES = 1024
"""The least bytes of a shard: it costs a message in each direction and the ops of an update of its own."""


def shard_limit(max_shards: int | None, spec: ResourceSpec) -> int:
    """The most shards of a variable: by default as many as there are hosts; on one host it is not split.

    The original AutoDist splits on a single device as well; there, a prime number of rows gives that many shards.
    """
    if spec.world_size == 1:
        return 1
    return spec.world_size if max_shards is None else max_shards


def can_cut(graph: TrainingGraph, variable: Variable, dim: int = 0) -> bool:
    """Whether a variable can be cut along a dim: its update is its own and elementwise."""
    if set(variable.coupled) - {variable.name}:
        return False
    if len(variable.shape) <= dim or variable.shape[dim] == 1 or 0 in variable.shape:
        return False
    return graph.graph_def is None or not graph.update_regions.of(variable.name).obstacles


def can_split(graph: TrainingGraph, variable: Variable, dim: int = 0) -> bool:
    """Whether a variable can be split along a dim into shards whose gradients travel.

    A sparse variable is split by rows only: its gradient has indices into dim 0.
    """
    return not (variable.is_sparse and dim) and can_cut(graph, variable, dim)


def can_spread(graph: TrainingGraph, variable: Variable, dim: int = 0) -> bool:
    """Whether a variable can be split along a dim into shards that several devices hold."""
    return can_split(graph, variable, dim) and only_updates(graph, variable)


def only_updates(graph: TrainingGraph, variable: Variable) -> bool:
    """Whether a step does nothing with a variable's gradient but the update: else a single device has to have it."""
    return graph.graph_def is None or graph.update_regions.of(variable.name).outside_use is None


def split(variable: Variable, parts: int | tuple[int, ...], dim: int = 0) -> Partition | None:
    """The partition that splits one dim into a number of nearly even parts, or parts of these sizes; None for one.

    Example:
        >>> from autodist.graph import Role, Variable
        >>> split(Variable("w", "w", (8, 3), "float32", Role.TRAINABLE), 2)
        (2, 1)
    """
    if parts == 1 or (isinstance(parts, tuple) and len(parts) == 1):
        return None
    return tuple(parts if index == dim else 1 for index in range(len(variable.shape)))


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor that is not above the limit.

    Example:
        >>> largest_divisor(12, 5), largest_divisor(7, 5)
        (4, 1)
    """
    return next((d for d in range(min(number, limit), 1, -1) if number % d == 0), 1)


def fixed_parts(variable: Variable, part_bytes: int, limit: int) -> Partition | None:
    """Rows in parts of one size in bytes, the last part smaller; nearly even parts if those would be too many.

    Example:
        >>> from autodist.graph import Role, Variable
        >>> table = Variable("table", "table", (10, 25), "float32", Role.TRAINABLE)
        >>> fixed_parts(table, 400, limit=8), fixed_parts(table, 400, limit=2)
        (((4, 4, 2), 1), (2, 1))
    """
    num_rows = variable.shape[0]
    rows = max(1, part_bytes * num_rows // max(1, variable.size_bytes))
    num_parts = math.ceil(num_rows / rows)
    if num_parts > limit:
        return split(variable, min(limit, num_rows))
    whole, rest = divmod(num_rows, rows)
    return split(variable, (*[rows] * whole, *([rest] if rest else [])))
