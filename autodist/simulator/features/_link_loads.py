"""Loads of many strategies on the links of every host, variable by variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from autodist.simulator._message_table import SERVER, Floats, Rows, ShardTable, with_packing

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

_COLUMNS = (
    "messages", "size_bytes", "summed_bytes", "gathered_bytes", "gathered_by_example", "asked_by_example",
    "read_bytes", "read_by_example",
)  # fmt: skip
_OF_HOSTS = ("waited_bytes", "waits", "kept_bytes", "rebuilt_flops", "cut_dim")
"""Columns that concern hosts; the others concern servers."""
_KINDS = ("has_own_connections", "is_joined", "is_proxied", "is_packed", "is_coded")
_PROBE_BYTES = 1e9


class LinkSeconds(NamedTuple):
    """The load of shards on servers: seconds on each link, shape (shards, links), and of their updates.

    Attributes:
        pushing: For gradients.
        reading: For values before the computation.
        following: For values after their updates.
        update_s: For the updates.
    """

    pushing: Floats
    reading: Floats
    following: Floats
    update_s: Floats


Formula: TypeAlias = Callable[[ShardTable], LinkSeconds]
"""Loads of shards on servers; they grow linearly with the bytes in each column."""


@dataclass(frozen=True)
class _Slope:
    """The load of one shard on each server, as a constant or per byte of a column; shape (servers, links)."""

    pushing: Floats
    reading: Floats
    following: Floats
    update_s: float


class LinkLoads:
    """Seconds on each link of each strategy, variable by variable: products of matrices, made when asked for."""

    def __init__(self, links: int, count: int) -> None:
        self._shape = links, count
        self._parts: list[tuple[dict[int, Floats], Floats]] = []

    def add(self, amounts: dict[int, Floats], slope: Floats) -> None:
        """Add the loads of each server's amounts to some variables; shapes (servers, strategies), (servers, links)."""
        if slope.any():
            self._parts.append((amounts, slope.T))

    def has(self, variable: int) -> bool:
        """Whether a variable has any load."""
        return any(variable in amounts for amounts, _ in self._parts)

    @property
    def total(self) -> Floats:
        """The seconds of all variables; shape (links, strategies)."""
        return self._summed(lambda amounts: list(amounts.values()))

    def sum_of(self, variables: Iterable[int]) -> Floats:
        """The seconds of some variables together; shape (links, strategies)."""
        return self._summed(lambda amounts: [amounts[variable] for variable in variables if variable in amounts])

    def _summed(self, picked: Callable[[dict[int, Floats]], list[Floats]]) -> Floats:
        found = np.zeros(self._shape, np.float32)
        for amounts, slope in self._parts:
            some = picked(amounts)
            if some:
                found += slope @ sum(some[1:], some[0])
        return found

    def of(self, variable: int) -> Floats:
        """The seconds of a variable; shape (links, strategies)."""
        found = [slope @ amounts[variable] for amounts, slope in self._parts if variable in amounts]
        return sum(found[1:], found[0]) if found else np.zeros(self._shape, np.float32)


class ServerLoads:
    """Loads of the shards on servers on links; those that are packed share the costs of a message.

    Because the formula is linear, it is evaluated once for each host and column; the rest are sums of bytes.

    Args:
        table: Shards.
        domain: The domain that they are for.
        count: How many strategies there are.
        formula: Gives the load of a shard on a server.

    Attributes:
        pushing: The loads of gradients.
        reading: The loads of values before the computation.
        following: The loads of values that go to workers' copies.
        update_s: By variable and strategy, the longest update of a shard.
        parts: By variable and strategy, how many shards on servers there are, at least 1.
    """

    def __init__(self, table: ShardTable, domain: Domain, count: int, formula: Formula) -> None:
        hosts = len(domain.replicas)
        table = with_packing(table, hosts)
        self.pushing, self.reading, self.following = (LinkLoads(2 * hosts, count) for _ in range(3))
        self.update_s = np.zeros((len(domain.variables), count), np.float32)
        self.parts = _counts(table, (len(domain.variables), hosts, count))
        cells = (table.variable * np.int64(hosts) + table.server) * count + table.strategy
        for rows, slopes in _alike(table, hosts, formula):
            for column, slope in slopes.items():
                if slope.pushing.any() or slope.reading.any() or slope.following.any():
                    amounts = np.ones(len(rows), np.float32) if column is None else getattr(table, column)[rows]
                    by_variable = _sums(cells[rows], amounts, hosts, count)
                    self.pushing.add(by_variable, slope.pushing)
                    self.reading.add(by_variable, slope.reading)
                    self.following.add(by_variable, slope.following)
            update = table.size_bytes[rows] * np.float32(slopes["size_bytes"].update_s)
            update += np.float32(slopes[None].update_s)
            np.maximum.at(self.update_s, (table.variable[rows], table.strategy[rows]), update)


def _counts(table: ShardTable, shape: tuple[int, int, int]) -> Floats:
    """By variable and strategy, how many shards are on one server, at most; 1 where none is."""
    served = np.flatnonzero(table.kind == SERVER)
    places = (table.variable[served].astype(np.int64) * shape[1] + table.server[served]) * shape[2]
    counts = np.bincount(places + table.strategy[served], minlength=shape[0] * shape[1] * shape[2])
    most: Floats = counts.reshape(shape).max(1).astype(np.float32)
    return np.maximum(most, np.float32(1))


def _alike(table: ShardTable, hosts: int, formula: Formula) -> Iterator[tuple[Rows, dict[str | None, _Slope]]]:
    """Shards that load alike, with their slopes: by column, and under None what a shard loads in itself."""
    served = np.flatnonzero(table.kind == SERVER)
    kinds = sum(getattr(table, name)[served].astype(np.int8) << bit for bit, name in enumerate(_KINDS))
    for kind in np.unique(kinds).tolist():
        yield served[kinds == kind], _slopes(hosts, formula, {n: bool(kind >> b & 1) for b, n in enumerate(_KINDS)})


def _slopes(hosts: int, formula: Formula, kinds: Mapping[str, bool]) -> dict[str | None, _Slope]:
    nothing = np.zeros(hosts, np.float32)
    columns = dict.fromkeys((*_COLUMNS, *_OF_HOSTS), nothing)
    numbers = np.arange(hosts, dtype=np.int32)
    zeros, kind, group = (np.full(hosts, value, np.int32) for value in (0, SERVER, -1))
    no, own, joined, proxied, packed, coded = (
        np.full(hosts, value, np.bool_) for value in (False, *(kinds[name] for name in _KINDS))
    )
    empty = ShardTable(numbers, zeros, kind, numbers, group, own, no, joined, proxied, packed, coded, **columns)
    base = formula(empty)
    slopes: dict[str | None, _Slope] = {
        None: _Slope(base.pushing, base.reading, base.following, float(base.update_s[0]))
    }
    for column in _COLUMNS:
        probed = formula(empty.replaced(**{column: nothing + np.float32(_PROBE_BYTES)}))
        push, read, follow, update = ((f - b) / np.float32(_PROBE_BYTES) for f, b in zip(probed, base, strict=True))
        slopes[column] = _Slope(push, read, follow, float(update[0]))
    return slopes


def _sums(cells: Rows, amounts: Floats, hosts: int, count: int) -> dict[int, Floats]:
    """By variable that has some, the sums of amounts by server and strategy."""
    some = np.flatnonzero(amounts)
    if len(some) < len(amounts):
        cells, amounts = cells[some], amounts[some]
    if not len(cells):
        return {}
    size = hosts * count
    has = np.zeros(int(cells.max()) // size + 1, bool)
    has[cells // size] = True
    variables = np.flatnonzero(has)
    if not has.all():
        cells = cells - ((np.arange(len(has)) - np.cumsum(has) + 1) * size)[cells // size]
    sums = np.zeros((len(variables), hosts, count), np.float32)
    np.add.at(sums.reshape(-1), cells, amounts)
    return dict(zip(variables.tolist(), sums, strict=True))
