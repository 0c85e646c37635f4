"""Messages of the shards of many strategies, as columns, with which simulators compute."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.carriers import JOINED_BYTES
from autodist.strategies import (
    PACK_BYTES,
    Form,
    ShardMessages,
    host_of,
    shard_messages,
)

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.strategies import Strategy

__all__ = [
    "ALL_REDUCE",
    "BROADCAST",
    "SERVER",
    "Bools",
    "Collected",
    "Floats",
    "Ints",
    "ServedColumns",
    "ShardTable",
    "tabulate",
    "with_packing",
]

Ints: TypeAlias = "npt.NDArray[np.int32]"
Floats: TypeAlias = "npt.NDArray[np.float32]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
Rows: TypeAlias = "npt.NDArray[np.intp]"
Column: TypeAlias = "npt.NDArray[np.generic]"

SERVER, ALL_REDUCE, BROADCAST = (form.value for form in (Form.SERVED, Form.REDUCED, Form.REBUILT))
_MOST_CELLS_PER_ROW = 64
_OF_PACKED = 0.1
"""The fraction of a message's cost that remains for each packed shard, which is copied into its place by itself."""
_OF_ROWS = 2.0
"""The number of messages, relative to a dense variable, of a table whose rows travel: row numbers go along each way."""


class ServedColumns(NamedTuple):
    """Columns of :class:`ShardTable` of shape (shards, 1)."""

    summed_bytes: Floats
    gathered_bytes: Floats
    gathered_by_example: Floats
    asked_by_example: Floats
    read_bytes: Floats
    read_by_example: Floats


class Collected(NamedTuple):
    """The shards of a table that no server has, and in which collectives they travel.

    Attributes:
        shards: These shards.
        rows: Their rows in the table.
        first: By collective, the first of its shards.
        of_shard: By shard, the number of its collective.
        last: By collective, the variable whose gradient is ready last.
    """

    shards: ShardTable
    rows: Rows
    first: Rows
    of_shard: Rows
    last: Ints


@dataclass(frozen=True)
class ShardTable:
    """Shards of strategies, one element for each in every column; those of one strategy follow each other.

    Attributes:
        strategy: Number of the strategy, ascending.
        variable: Number of the variable in the domain's order.
        kind: ``SERVER``, ``ALL_REDUCE`` or ``BROADCAST``.
        server: Rank of the host that serves it, -1 for none.
        group: Number of the collective in which it travels, -1 for a shard on a server.
        has_own_connections: Whether it uses connections of its carrier, not those of TensorFlow's runtime.
        is_direct: Whether it goes from each host to each other one, and each sums as much as its link allows; else it
            goes around a ring of hosts.
        is_joined: Whether only one message leaves a host with several replicas.
        is_proxied: Whether workers have copies of the value, which follow its update.
        is_packed: Whether it travels together with others of its server for which this holds.
        is_coded: Whether it is encoded on slow links, if there are any.
        messages: Its number of messages: 1 for a gradient and the value that is returned, less if they are packed by
            :func:`with_packing`.
        size_bytes: The size of the value.
        summed_bytes: Bytes that each sender sends to be summed.
        gathered_bytes: Bytes that each worker sends to be gathered.
        gathered_by_example: The same, for each example of the sender.
        asked_by_example: Bytes of row numbers that lookups send for each example.
        read_bytes: Bytes that each worker fetches from the server.
        read_by_example: The same, for each of its examples.
        waited_bytes: Bytes of activations that each host sends while its computation waits.
        waits: How often the computation waits in a step.
        kept_bytes: Bytes that each host keeps of the tensors gathered then.
        rebuilt_flops: Operations of each worker, per example of the batch, to compute gradients from their factors.
        cut_dim: The first dim along which the variable is cut; -1 if it is whole.
    """

    strategy: Ints
    variable: Ints
    kind: Ints
    server: Ints
    group: Ints
    has_own_connections: Bools
    is_direct: Bools
    is_joined: Bools
    is_proxied: Bools
    is_packed: Bools
    is_coded: Bools
    messages: Floats
    size_bytes: Floats
    summed_bytes: Floats
    gathered_bytes: Floats
    gathered_by_example: Floats
    asked_by_example: Floats
    read_bytes: Floats
    read_by_example: Floats
    waited_bytes: Floats
    waits: Floats
    kept_bytes: Floats
    rebuilt_flops: Floats
    cut_dim: Floats

    def __len__(self) -> int:
        return len(self.strategy)

    def take(self, rows: Rows | Bools | Ints | slice) -> ShardTable:
        """The shards of these rows."""
        if isinstance(rows, slice):
            return ShardTable(*(getattr(self, name)[rows] for name in _COLUMNS))
        return _PickedShards(self, _numbers(rows), {})

    @functools.cached_property
    def collected(self) -> Collected:
        """The shards that travel in collectives."""
        rows = np.flatnonzero(self.kind != SERVER)
        shards = self.take(rows)
        return Collected(shards, rows, *_collectives(shards))

    @property
    def by_host(self) -> ServedColumns:
        """The columns for messages to and from servers, whose sizes differ by host."""
        return ServedColumns(*(getattr(self, name)[:, None] for name in ServedColumns._fields))

    @classmethod
    def joined(cls, tables: Sequence[ShardTable]) -> ShardTable:
        """The shards of all these tables, one after the other."""
        first = tables[0]
        if isinstance(first, _PickedShards):
            picked = [table for table in tables if isinstance(table, _PickedShards) and table.source is first.source]
            if len(picked) == len(tables):
                return _PickedShards.of_one_source(picked)
        return ShardTable(*(np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS))

    def replaced(self, **columns: Column) -> ShardTable:
        """The same with other columns."""
        return dataclasses.replace(self, **columns)  # type: ignore[arg-type]


class _PickedShards(ShardTable):
    """Rows of another table; a column is picked on first use, because many tables are only intermediate.

    Args:
        source: The other table.
        rows: Numbers of its rows.
        own: Columns, by name, that replace those of the other table.
    """

    source: ShardTable
    rows: Rows
    own: Mapping[str, Column]

    def __init__(self, source: ShardTable, rows: Rows, own: Mapping[str, Column]) -> None:
        self.__dict__.update(own, source=source, rows=rows, own=own)

    def __getattr__(self, name: str) -> Column:
        if name not in _COLUMNS:
            raise AttributeError(name)
        column: Column = getattr(self.source, name).take(self.rows)
        self.__dict__[name] = column
        return column

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Rows | Bools | Ints | slice) -> ShardTable:
        """The shards of these rows."""
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else _numbers(rows)
        own = {name: column.take(numbers) for name, column in self.own.items()}
        return _PickedShards(self.source, self.rows.take(numbers), own)

    def replaced(self, **columns: Column) -> ShardTable:
        """The same with other columns."""
        found = _PickedShards(self.source, self.rows, {**self.own, **columns})
        found.__dict__.update({name: self.__dict__[name] for name in _COLUMNS if name in self.__dict__} | columns)
        return found

    @classmethod
    def of_one_source(cls, tables: Sequence[_PickedShards]) -> _PickedShards:
        """The shards of all these tables, which have one source."""
        names = dict.fromkeys(name for table in tables for name in table.own)
        own = {name: np.concatenate([getattr(table, name) for table in tables]) for name in names}
        return cls(tables[0].source, np.concatenate([table.rows for table in tables]), own)


def _numbers(rows: Rows | Bools | Ints) -> Rows:
    """Row numbers, converted once instead of for each column."""
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp, copy=False)


_COLUMNS = tuple(field.name for field in dataclasses.fields(ShardTable))
_BOOLS = frozenset({"has_own_connections", "is_direct", "is_joined", "is_proxied", "is_packed", "is_coded"})
_INTS = frozenset({"strategy", "variable", "kind", "server", "group"})


def _collectives(shards: ShardTable) -> tuple[Rows, Rows, Ints]:
    """The last three fields of :class:`Collected`, of a table without servers."""
    head = _first_of_group(shards)
    is_head = head == np.arange(len(shards))
    first = np.flatnonzero(is_head)
    inverse = (np.cumsum(is_head) - 1)[head]
    last = np.zeros(len(first), np.int32)
    np.maximum.at(last, inverse, shards.variable)
    return first, inverse, last


def _first_of_group(shards: ShardTable) -> Rows:
    """By row, the first row of those that travel with it; itself without a group.

    A carrier that goes around a ring joins a group. One that sends directly joins only what is small: the rest leaves
    as soon as it is ready.
    """
    rows = np.arange(len(shards))
    group = np.where(shards.is_direct & (shards.summed_bytes > JOINED_BYTES), np.int32(-1), shards.group)
    width = int(group.max(initial=-1)) + 1
    if width * (int(shards.strategy.max(initial=-1)) + 1) > _MOST_CELLS_PER_ROW * len(shards):
        _, first, inverse = np.unique((shards.strategy, group), axis=1, return_index=True, return_inverse=True)
        return np.where(group < 0, rows, first[inverse.ravel()])
    keys = shards.strategy * np.int64(width) + group
    grouped = np.flatnonzero(group >= 0)
    head = np.empty(int(keys.max(initial=-1)) + 1, np.intp)
    head[keys[grouped[::-1]]] = grouped[::-1]  # the last assignment of a key stays: that of its first row
    rows[grouped] = head[keys[grouped]]
    return rows


def with_packing(table: ShardTable, hosts: int) -> ShardTable:
    """The table with the fraction of a message that each shard takes, after small ones to one server are packed."""
    rows = np.flatnonzero(table.is_packed & (table.kind == SERVER))
    if not len(rows):
        return table
    places = table.strategy[rows] * np.int64(hosts) + table.server[rows]
    messages = table.messages.copy()
    counts, sizes = np.bincount(places), np.bincount(places, table.summed_bytes[rows])
    needed = np.minimum(np.ceil(sizes / PACK_BYTES), counts)
    messages[rows] = _OF_PACKED + (1 - _OF_PACKED) * (needed / np.maximum(counts, 1))[places]
    return table.replaced(messages=messages)


def tabulate(strategies: Sequence[Strategy], domain: Domain) -> ShardTable:
    """The shards of strategies that fit the domain.

    Raises:
        KeyError: A server is on none of the domain's hosts.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.simulator import Domain
        >>> from autodist.strategies import PSLoadBalancing
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> graph, spec = TrainingGraph(None, (w,), (), (), ()), ResourceSpec.local(workers=4)
        >>> table = tabulate([PSLoadBalancing().build(graph, spec)], Domain.of(graph, spec))
        >>> float(table.summed_bytes[0])
        1000000.0
    """
    numbered = (
        (number, message)
        for number, strategy in enumerate(strategies)
        for message in shard_messages(strategy, domain.graph, domain.batch_size, {})
    )
    return table_of(numbered, domain)


def table_of(rows: Iterable[tuple[int, ShardMessages]], domain: Domain) -> ShardTable:
    """The table of messages, each with the number of its strategy."""
    columns = [*zip(*(_row(number, message, domain) for number, message in rows), strict=True)]
    found = dict(zip(_COLUMNS, columns, strict=True)) if columns else dict.fromkeys(_COLUMNS, ())
    return ShardTable(**{name: np.asarray(values, _dtype(name)) for name, values in found.items()})


def _dtype(column: str) -> type[np.generic]:
    return np.int32 if column in _INTS else np.bool_ if column in _BOOLS else np.float32


def _row(strategy: int, message: ShardMessages, domain: Domain) -> tuple[float, ...]:
    """A shard's entries in the columns of the table, in their order; a large graph has tens of thousands of shards."""
    terms = message.synchronizer.terms(message)
    number = domain.number_of[message.variable]
    return (
        strategy,
        number,
        terms.form.value,
        -1 if terms.server is None else domain.ranks[host_of(terms.server)],
        terms.group,
        terms.has_own_connections,
        terms.is_direct,
        terms.is_joined,
        terms.is_proxied,
        message.is_packed,
        message.is_gradient_coded and domain.has_coded_links,
        _messages(message),
        message.size_bytes,
        message.summed_bytes,
        message.gathered_bytes,
        message.gathered_by_example,
        message.asked_by_example,
        terms.read_bytes,
        message.read_by_example,
        message.waited_bytes,
        message.waits,
        message.kept_bytes,
        message.rebuilt_flops,
        _cut_dim(message.shape, domain.variables[number].shape),
    )


def _cut_dim(shard: tuple[int, ...], whole: tuple[int, ...]) -> int:
    """The first dim in which a shard is smaller than its variable; -1 for none."""
    if shard == whole:
        return -1
    return next((dim for dim, sizes in enumerate(zip(shard, whole, strict=False)) if sizes[0] != sizes[1]), -1)


def _messages(message: ShardMessages) -> float:
    """The number of messages of a gradient and a value; 0 if nothing travels."""
    if not message.travels:
        return 0.0
    return _OF_ROWS if message.lookup_rows else 1.0
