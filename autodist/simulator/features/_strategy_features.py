"""Strategies as inputs of machine learning: features of each variable, and of the whole (thesis 8.3.1)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.cost.operations import DEVICE_FLOPS
from autodist.simulator._message_table import (
    ALL_REDUCE,
    BROADCAST,
    SERVER,
    Bools,
    Floats,
    ShardTable,
    with_packing,
)
from autodist.simulator.features._features import NAMES, Messages, global_features, messages

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

Doubles: TypeAlias = "npt.NDArray[np.float64]"

_MOST_BYTES = 1e12
"""The bytes that count for a step that replicas can't share, in place of infinity."""

PREDEFINED = ("transfer", "longest_transfer", "messages", "copies", "shared_transfer", "transfer_of_server")
"""For each variable: the terms of equations 8.2 and 8.3 of its shards, and the transfer of what they travel with
and of all that is on the same server."""

RAW = (
    "size", "ready", "needed", "served", "reduced", "broadcast", "horovod", "joined", "proxied", "shards",
    "largest_shard", "servers", "server_speed", "encoding", "gathered", "by_example", "read", "members", "compute",
    "hosts", "replicas", "spread",
    "itemsize", "dims", "rows", "cut_dim", "direct", "coded", "on_fastest", "on_slowest", "on_one_server",
    "slowest_server", "group_place", "group_ready", "waited", "waits", "rebuilt",
)  # fmt: skip
"""For each variable: z_raw, from the graph, the strategy and the cluster. The last three lines have its dtype and dims,
the dim that is cut, the carrier, where it is placed among hosts of which bandwidth, its group, and its tiles."""


@dataclass(frozen=True)
class Encoding:
    """Features of strategies.

    Attributes:
        table: The shards of the strategies.
        domain: The domain that they are for.
        found: Their messages.
        whole: z_pre, shape (strategies, features).
    """

    table: ShardTable
    domain: Domain
    found: Messages
    whole: Floats

    @property
    def neighbours(self) -> Bools:
        """Whether two variables follow each other in the dataflow, shape (variables, variables)."""
        return self.domain.neighbours

    @functools.cached_property  # most of the work, and a model that learns from z_pre alone does not need it
    def variables(self) -> Floats:
        """For each variable, in the order in which gradients become ready: RAW, then PREDEFINED.

        Its shape is (strategies, variables, features).
        """
        unit = unit_s(self.domain)
        cells = _Cells(self.table, self.domain, len(self.whole))
        columns = (*_raw(self.table, self.domain, cells, unit), *_predefined(self.table, self.found, cells, unit))
        variables = np.empty((cells.count, len(columns)), np.float32)
        for number, column in enumerate(columns):
            variables[:, number] = column
        return variables.reshape(len(self.whole), len(self.domain.variables), len(columns))


def encode(table: ShardTable, domain: Domain, num_strategies: int) -> Encoding:
    """The features of strategies; times are in units of the domain, so that domains can be compared."""
    table = with_packing(table, len(domain.replicas))
    found = messages(table, domain)
    unit = unit_s(domain)
    whole = global_features(found, num_strategies)
    for column, name in enumerate(NAMES):
        if name.endswith("transfer_s"):
            whole[:, column] /= unit
    return Encoding(table, domain, found, np.log1p(whole))


def unit_s(domain: Domain) -> float:
    """The seconds that a step of the domain takes about: its computation, and each value once over an average link."""
    links = domain.seconds_per_byte[domain.seconds_per_byte > 0]
    size = sum(variable.size_bytes for variable in domain.variables)
    return domain.compute_s + size * float(links.mean() if len(links) else 0.0) + 1e-4


class _Cells:
    """Sums, maxima and means over the shards of each variable of each strategy."""

    def __init__(self, table: ShardTable, domain: Domain, num_strategies: int) -> None:
        self.count = num_strategies * len(domain.variables)
        self.of = table.strategy.astype(np.int64) * len(domain.variables) + table.variable
        is_sorted = bool((self.of[1:] >= self.of[:-1]).all())
        self._order = None if is_sorted else np.argsort(self.of, kind="stable")
        numbers = np.bincount(self.of, minlength=self.count)
        self._filled = np.flatnonzero(numbers)
        self._begins = (np.cumsum(numbers) - numbers)[self._filled]
        self.shards = numbers.astype(np.float32)

    def sum(self, values: npt.NDArray[Any]) -> Floats:
        return self._reduced(np.add, values, np.float64)

    def max(self, values: npt.NDArray[Any]) -> Floats:
        """The largest value of each cell; 0 if it is less, or if the cell has no shard."""
        return self._reduced(np.maximum, np.maximum(values, 0), values.dtype)

    def _reduced(self, by: np.ufunc, values: npt.NDArray[Any], dtype: npt.DTypeLike) -> Floats:
        # `reduceat` over neighbours takes a third of the time of `bincount` and `ufunc.at`, which look up each place.
        found = np.zeros(self.count, np.float32)
        if values.any():  # some columns are zeros for all that a search proposes
            ordered = values if self._order is None else values[self._order]
            found[self._filled] = by.reduceat(ordered.astype(dtype, copy=False), self._begins)
        return found

    def mean(self, values: npt.NDArray[Any]) -> Floats:
        found: Floats = (self.sum(values) / np.maximum(self.shards, 1)).astype(np.float32)
        return found


def _raw(table: ShardTable, domain: Domain, cells: _Cells, unit: float) -> list[Floats]:
    size = cells.sum(table.size_bytes)
    share = np.maximum(size, 1)
    served, joined = table.kind == SERVER, table.is_joined
    repeat = cells.count // max(1, len(domain.variables))
    speed = _speeds(domain)
    examples = float(domain.examples.max(initial=0))
    by_example = table.gathered_by_example + table.asked_by_example + table.read_by_example
    hosts, replicas = len(domain.replicas), float(domain.replicas.sum())
    constant = np.ones(cells.count, np.float32)
    return [
        np.log10(1 + size) / 8,
        np.tile(domain.ready_s / unit, repeat),
        np.tile(domain.needed_s / unit, repeat),
        cells.mean(served),
        cells.mean(table.kind == ALL_REDUCE),
        cells.mean(table.kind == BROADCAST),
        cells.mean(table.has_own_connections),
        cells.mean(joined),
        cells.mean(table.is_proxied),
        np.log2(np.maximum(cells.shards, 1)),
        cells.max(table.size_bytes) / share,
        _distinct_servers(table, cells, hosts),
        cells.mean(np.where(served, speed[table.server], 0)),
        cells.sum(table.summed_bytes) / share,
        cells.sum(table.gathered_bytes) / share,
        np.log1p(cells.sum(by_example) * examples / share),
        cells.sum(table.read_bytes) / share,
        np.log2(cells.mean(_members(table))),
        constant * domain.compute_s / unit,
        constant * np.log2(hosts),
        constant * np.log2(max(replicas, 1)),
        constant * np.log(speed.max(initial=1) / max(speed.min(initial=1), 1e-9)),
        *_of_the_graph(table, domain, cells, repeat),
        cells.mean(table.is_direct),
        cells.mean(table.is_coded),
        *_placement(table, cells, speed),
        *_of_groups(table, domain, cells, unit),
        *_of_tiles(table, domain, cells, unit),
    ]


def _of_the_graph(table: ShardTable, domain: Domain, cells: _Cells, repeat: int) -> list[Floats]:
    """Features of the variable itself, and of the dim that is cut."""
    sizes = [variable.size_bytes / max(1, prod(variable.shape)) for variable in domain.variables]
    rows = [variable.shape[0] if variable.shape else 1 for variable in domain.variables]
    return [
        np.tile(np.log2(np.maximum(sizes, 1)), repeat) / 3,
        np.tile([len(variable.shape) / 4 for variable in domain.variables], repeat),
        np.tile(np.log10(rows), repeat) / 6,
        cells.max(table.cut_dim + 1) / 4,
    ]


def _placement(table: ShardTable, cells: _Cells, speed: Floats) -> list[Floats]:
    """Features of where a variable's bytes are placed, and of the bandwidths of these hosts."""
    served = table.kind == SERVER
    own = np.where(served, speed[table.server], 0)
    size = np.maximum(cells.sum(table.size_bytes), 1)
    hosts = len(speed)
    on_hosts = np.bincount(
        cells.of * hosts + np.maximum(table.server, 0), table.size_bytes * served, cells.count * hosts
    )
    is_slow = served & (own < speed.max(initial=1))
    return [
        cells.sum(table.size_bytes * (served & ~is_slow)) / size,
        cells.sum(table.size_bytes * (served & (own <= speed.min(initial=1)) & is_slow)) / size,
        (on_hosts.reshape(-1, hosts).max(1) / size).astype(np.float32),
        cells.max(np.where(served, 1 - own, 0)),
    ]


def _of_groups(table: ShardTable, domain: Domain, cells: _Cells, unit: float) -> list[Floats]:
    """Features of a variable's group: its place among the strategy's groups, and when it is complete."""
    place, ready = np.zeros(len(table)), np.zeros(len(table))
    others, rows, first, inverse, last = table.collected
    if len(rows):
        owner = others.strategy[first]
        begins = np.searchsorted(owner, owner)
        counts = np.bincount(owner)[owner]
        order = np.lexsort((last, owner))
        rank = np.empty(len(first))
        rank[order] = np.arange(len(first)) - begins
        place[rows] = ((rank + 1) / counts)[inverse]
        ready[rows] = domain.ready_s[last][inverse] / unit
    return [cells.mean(place), cells.max(ready)]


def _of_tiles(table: ShardTable, domain: Domain, cells: _Cells, unit: float) -> list[Floats]:
    """The time that the computation waits because the variable is tiled, and that of the work that all repeat."""
    waited = np.minimum(table.waited_bytes, _MOST_BYTES) * domain.ring_s_per_byte
    rebuilt = table.rebuilt_flops * (domain.batch_size / DEVICE_FLOPS)
    return [
        np.log1p(1e2 * cells.sum(waited) / unit),
        np.log1p(cells.sum(table.waits)),
        np.log1p(1e2 * cells.sum(rebuilt) / unit),
    ]


def _speeds(domain: Domain) -> Floats:
    """By host, the bandwidth of its links relative to the fastest."""
    hosts = len(domain.replicas)
    slowest = domain.seconds_per_byte.max(1, initial=0) if hosts > 1 else np.zeros(hosts)
    fastest = slowest.min(initial=np.inf)
    return np.where(slowest > 0, fastest / np.maximum(slowest, 1e-30), 1).astype(np.float32)


def _distinct_servers(table: ShardTable, cells: _Cells, hosts: int) -> Floats:
    """The fraction of the hosts that serve shards of a variable."""
    served = np.flatnonzero(table.kind == SERVER)
    serves = np.zeros(cells.count * hosts, bool)
    serves[cells.of[served] * hosts + table.server[served]] = True
    found: Floats = serves.reshape(cells.count, hosts).sum(1, dtype=np.float32) / np.float32(hosts)
    return found


def _members(table: ShardTable) -> Doubles:
    """By shard, the number of shards that travel together, itself included."""
    messages = table.messages.astype(np.float64)
    members = 1 / np.where(messages > 0, np.minimum(messages, 1), 1)  # a table counts as two, a tiled variable as none
    inverse = table.collected.of_shard
    members[table.collected.rows] = np.bincount(inverse)[inverse]
    return members


def _predefined(table: ShardTable, found: Messages, cells: _Cells, unit: float) -> list[Floats]:
    served = table.kind == SERVER
    others, rows, first, inverse, _ = table.collected
    weight = np.maximum(others.summed_bytes + others.gathered_bytes + others.gathered_by_example, 1e-9)
    by_bytes = weight / np.bincount(inverse, weight, len(first))[inverse] if len(others) else weight
    alike = 1 / np.bincount(inverse, minlength=len(first))[inverse] if len(others) else weight

    def of_shards(term: Floats, share: Doubles | float) -> Doubles:
        """A term of messages, by shard; shards that share a message have their parts of its term."""
        values = np.zeros(len(table))
        values[served] = term[found.is_served]
        values[rows] = term[~found.is_served][inverse] * share
        return values

    transfer = of_shards(found.transfer_s, by_bytes)
    return [
        np.log1p(1e2 * cells.sum(transfer) / unit),
        np.log1p(1e2 * cells.max(transfer) / unit),
        np.log1p(cells.sum(of_shards(found.overheads, alike))),
        np.log1p(cells.sum(of_shards(found.copies, alike))),
        np.log1p(1e2 * cells.max(of_shards(found.transfer_s, 1.0)) / unit),
        np.log1p(1e2 * cells.max(_transfer_of_server(table, transfer)) / unit),
    ]


def _transfer_of_server(table: ShardTable, transfer: Doubles) -> Doubles:
    """By shard, the transfer time of all shards on its server; 0 without a server."""
    served = table.kind == SERVER
    places = table.strategy.astype(np.int64) * (int(table.server.max(initial=0)) + 1) + np.maximum(table.server, 0)
    totals = np.bincount(places, transfer * served)
    found: Doubles = totals[places] * served
    return found
