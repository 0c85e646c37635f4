"""The tiling that moves the fewest bytes: of all axes at once, or of one axis after another."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from autodist.cost.resharding import COPIES, AxisTiles
from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseOperator
from autodist.search.tilings._domains import Domains, Replicate, States, tile_bytes
from autodist.search.tilings._elimination import (
    MOST_CELLS,
    CostFactor,
    TooWide,
    eliminate,
    min_degree_order,
    most_cells,
)
from autodist.search.tilings._factor_tables import Combination, Tables
from autodist.search.tilings._greedy import greedy
from autodist.search.tilings._level_order import level_order
from autodist.search.tilings._repeated import Quotient, alike_layers, alike_steps

_REPEATED = 0.75
"""If merging repeated steps leaves at most this fraction of the operators, the merged graph is searched."""

_MOST_OPERANDS = 4
"""Operators with more operands get one table for each operand."""


class Method(enum.Enum):
    """How a tiling is searched for."""

    JOINT = "joint"
    """All axes at once: the optimum."""
    RECURSIVE = "recursive"
    """One axis after another, the first cutting what the next ones cut further (Tofu, section 5.2)."""
    LEVELS = "levels"
    """As `RECURSIVE`, each cut by dynamic programming over breadth-first levels (SoyBean, one-cut and k-cuts)."""
    GREEDY = "greedy"
    """One tensor after another, that with the most neighbours first (Spartan), for one axis after another."""
    DEFERRING = "deferring"
    """As `GREEDY`, but tensors with several cheapest layouts are decided later."""
    AUTO = "auto"
    """The joint optimum where its tables are small enough; else the recursion, or that of equal layers, repaired."""


@dataclass(frozen=True)
class SearchOptions:
    """The settings of a search.

    Attributes:
        method: The method.
        replicate: Which tensors may be whole on every device.
        tiles: How tiles lie.
        polish: Whether one axis after another is searched again with the others fixed, until nothing improves.
        fixed: By tensor, the layouts that are allowed.
        memory_weight: The price, in moved bytes, of one more byte that a device keeps.
        copies_bytes: Bytes that each device may keep for copies cut along other dims, in greedy searches on one axis.
        exchange_bytes: The price of an exchange that the computation waits for, in moved bytes, whatever it moves.
        most_cells: Number of cells of the largest table.
    """

    method: Method = Method.AUTO
    replicate: Replicate = Replicate.FREE
    tiles: AxisTiles = AxisTiles.BOXES
    polish: bool = True
    fixed: Mapping[int, tuple[States, ...]] = field(default_factory=lambda: MappingProxyType({}))
    memory_weight: float = 0.0
    copies_bytes: float = 0.0
    exchange_bytes: float = 0.0
    most_cells: float = MOST_CELLS


@dataclass(frozen=True)
class FoundTiling:
    """A tiling of a coarse graph.

    Attributes:
        layouts: By tensor, its layout.
        cuts: By operator, how it is cut along each axis.
        moved_bytes: Bytes that conversions move in a step, over all devices, and the price of exchanges.
        after_each: If axes were cut in turn, `moved_bytes` with only the first axis, the first two, and so on.
    """

    layouts: tuple[States, ...]
    cuts: tuple[Combination, ...]
    moved_bytes: float
    after_each: tuple[float, ...] = ()


def find_tiling(graph: CoarseGraph, lengths: tuple[int, ...], options: SearchOptions | None = None) -> FoundTiling:
    """Return the tiling of a coarse graph that moves the fewest bytes.

    Args:
        graph: The graph.
        lengths: Lengths of the axes of the mesh, that of the slowest link first.
        options: The settings of the search.

    Raises:
        TooWide: Tables of the joint search would be too large.
    """
    search = _Search(graph, lengths, options or SearchOptions())
    return search.run()


def priced(
    graph: CoarseGraph,
    lengths: tuple[int, ...],
    layouts: Sequence[States],
    tiles: AxisTiles = AxisTiles.BOXES,
    among: Mapping[int, tuple[Combination, ...]] = MappingProxyType({}),
    exchange_bytes: float = 0.0,
) -> FoundTiling:
    """The tiling with these layouts, each operator being cut in the cheapest way, or in the cheapest of those given."""
    tables = Tables(graph, lengths, tiles, exchange_bytes)
    chosen = [
        tables.best(
            operator, [layouts[t] for t in operator.operands], among.get(place) or tables.combinations(operator)
        )
        for place, operator in enumerate(graph.operators)
    ]
    return FoundTiling(tuple(layouts), tuple(c for _, c in chosen), sum(cost for cost, _ in chosen))


class _Search:
    def __init__(self, graph: CoarseGraph, lengths: tuple[int, ...], options: SearchOptions) -> None:
        self._graph = graph
        self._lengths = lengths
        self._options = options
        self._is_greedy = options.method in (Method.GREEDY, Method.DEFERRING)
        self._domains = self._domains_on(lengths)

    def _domains_on(self, lengths: tuple[int, ...]) -> Domains:
        options = self._options
        copies = self._is_greedy and options.copies_bytes > 0
        return Domains(self._graph, lengths, options.replicate, options.fixed, copies=copies)

    def run(self) -> FoundTiling:
        method = self._options.method
        if method is Method.AUTO:
            steps = alike_steps(self._graph)
            if len(steps.graph.operators) < _REPEATED * len(self._graph.operators):
                return self._expanded(steps, self._of_quotient(steps).run())
        if method in (Method.JOINT, Method.AUTO):
            try:
                return self._joint()
            except TooWide:
                if method is Method.JOINT:
                    raise
        found = self._recursive()
        if method is Method.AUTO:
            others = (*self._of_equal_layers(), *self._of_digits())
            found = min((found, *others), key=lambda tiling: self._weighed(tiling)[0])
        return self._polished(found) if self._options.polish and not self._is_greedy else found

    def _of_equal_layers(self) -> list[FoundTiling]:
        """The tiling in which repeated layers are alike, if that can be searched at once."""
        layers = alike_layers(self._graph)
        try:
            return [self._expanded(layers, self._of_quotient(layers)._joint())]
        except TooWide:
            return []

    def _of_quotient(self, quotient: Quotient) -> _Search:
        fixed = {quotient.place[t]: allowed for t, allowed in self._options.fixed.items()}
        return _Search(quotient.graph, self._lengths, replace(self._options, fixed=fixed))

    def _expanded(self, quotient: Quotient, found: FoundTiling) -> FoundTiling:
        layouts = tuple(found.layouts[place] for place in quotient.place)
        return priced_by(self._tables(len(self._lengths)), layouts)

    def _of_digits(self) -> list[FoundTiling]:
        """The tiling that the recursive method finds if tiles may lie in any order of the axes."""
        if self._options.tiles is AxisTiles.DIGITS or len(self._lengths) < 2:
            return []
        search = _Search(self._graph, self._lengths, replace(self._options, tiles=AxisTiles.DIGITS))
        return [priced_by(self._tables(len(self._lengths)), search._recursive().layouts)]

    def _joint(self) -> FoundTiling:
        tables = self._tables(len(self._lengths))
        every = [tables.combinations(operator) for operator in self._graph.operators]
        return priced_by(tables, self._solved(tables, self._domains.every(), every))

    def _recursive(self) -> FoundTiling:
        layouts: tuple[States, ...] = ((),) * len(self._graph.tensors)
        cuts: tuple[Combination, ...] = ((),) * len(self._graph.operators)
        costs = []
        for count in range(1, len(self._lengths) + 1):
            tables = self._tables(count)
            among = [
                _continued(tables.combinations(operator), before)
                for operator, before in zip(self._graph.operators, cuts, strict=True)
            ]
            domains = self._domains_on(tables.lengths).after(layouts)
            try:
                layouts = self._solved(tables, domains, among)
            except TooWide:
                layouts = self._chosen(tables, domains, among)
            best = [
                tables.best(operator, [layouts[t] for t in operator.operands], ways)
                for operator, ways in zip(self._graph.operators, among, strict=True)
            ]
            cuts = tuple(chosen for _, chosen in best)
            costs.append(sum(cost for cost, _ in best))
        return FoundTiling(layouts, cuts, costs[-1], tuple(costs))

    def _polished(self, found: FoundTiling) -> FoundTiling:
        """Search again near the found tiling, and among all cuts of operators, until nothing improves."""
        tables = self._tables(len(self._lengths))
        every = [tables.combinations(operator) for operator in self._graph.operators]
        best = self._weighed(priced_by(tables, found.layouts))
        is_better = True
        while is_better:
            is_better = False
            for domains in self._neighbourhoods(best[1].layouts, every):
                other = self._weighed(priced_by(tables, self._solved(tables, domains, every)))
                if other[0] < best[0] * (1 - 1e-9):
                    best, is_better = other, True
                    break
        return replace(best[1], after_each=found.after_each)

    def _neighbourhoods(
        self, layouts: tuple[States, ...], every: Sequence[tuple[Combination, ...]]
    ) -> Iterator[list[tuple[States, ...]]]:
        """Sets of layouts near the given ones: with any axis changed if tables are small enough, else with one axis."""
        near = self._domains.near(layouts)
        try:
            self._ordered(near, every)
            yield near
        except TooWide:
            for axis in range(len(self._lengths)):
                along = self._domains.along(axis, layouts)
                with contextlib.suppress(TooWide):
                    self._ordered(along, every)
                    yield along

    def _weighed(self, found: FoundTiling) -> tuple[float, FoundTiling]:
        weight, cost = self._options.memory_weight, found.moved_bytes
        if weight:
            tensors = zip(self._graph.tensors, found.layouts, strict=True)
            cost += weight * sum(max(1, t.stored) * tile_bytes(t, states, self._lengths) for t, states in tensors)
        return cost, found

    def _tables(self, count: int) -> Tables:
        return Tables(self._graph, self._lengths[:count], self._options.tiles, self._options.exchange_bytes)

    def _solved(
        self, tables: Tables, domains: list[tuple[States, ...]], among: Sequence[tuple[Combination, ...]]
    ) -> tuple[States, ...]:
        if self._is_greedy:
            return self._chosen(tables, domains, among)
        sizes, order = self._ordered(domains, among)
        factors = list(map(_squeezed, self._factors(tables, domains, among)))
        if self._options.memory_weight:
            factors += [self._kept(t, domain, tables.lengths) for t, domain in enumerate(domains)]
        _, values = eliminate(factors, sizes, order, self._options.most_cells)
        return tuple(domain[value] for domain, value in zip(domains, values, strict=False))

    def _factors(
        self, tables: Tables, domains: list[tuple[States, ...]], among: Sequence[tuple[Combination, ...]]
    ) -> Iterator[CostFactor]:
        """The tables of all operators; of one with many operands, the way to cut it is a variable of its own."""
        own = len(domains)
        for operator, ways in zip(self._graph.operators, among, strict=True):
            if self._is_wide(operator, domains):
                yield from tables.by_operand(operator, domains, ways, own)
                own += 1
            else:
                yield tables.factor(operator, domains, ways)

    def _is_wide(self, operator: CoarseOperator, domains: list[tuple[States, ...]]) -> bool:
        return len({t for t in operator.operands if len(domains[t]) > 1}) > _MOST_OPERANDS

    def _variables(
        self, domains: list[tuple[States, ...]], among: Sequence[tuple[Combination, ...]]
    ) -> tuple[list[int], list[tuple[int, ...]]]:
        """How many values each variable has, and which variables each table binds."""
        sizes, scopes = [len(domain) for domain in domains], []
        for operator, ways in zip(self._graph.operators, among, strict=True):
            bound = tuple({t for t in operator.operands if len(domains[t]) > 1})
            if not self._is_wide(operator, domains):
                scopes.append(bound)
                continue
            if len(ways) > 1:
                scopes += [(t, len(sizes)) for t in bound]
            sizes.append(len(ways))
        return sizes, scopes

    def _ordered(
        self, domains: list[tuple[States, ...]], among: Sequence[tuple[Combination, ...]]
    ) -> tuple[list[int], list[int]]:
        """The number of values of each variable, and the order to eliminate them in.

        Raises:
            TooWide: Tables would be too large.
        """
        sizes, scopes = self._variables(domains, among)
        for operator, ways in zip(self._graph.operators, among, strict=True):
            cells = np.prod([float(len(domains[t])) for t in set(operator.operands)]) * len(ways)
            if cells > 10 * self._options.most_cells and not self._is_wide(operator, domains):
                raise TooWide("an operator has too many layouts of its tensors")
        if self._options.method is Method.LEVELS:
            order = [*level_order(self._graph, sizes[: len(domains)]), *range(len(domains), len(sizes))]
        else:
            order = min_degree_order(scopes, sizes)
        if most_cells(scopes, sizes, order) > self._options.most_cells:
            raise TooWide(f"tables of more than {self._options.most_cells:.2g} cells are too large")
        return sizes, order

    def _chosen(
        self, tables: Tables, domains: list[tuple[States, ...]], among: Sequence[tuple[Combination, ...]]
    ) -> tuple[States, ...]:
        """The layouts that the greedy method chooses, one tensor after another."""
        extra = {
            (t, value): (len(tensor.shape) - 1) * tensor.size_bytes / tables.lengths[0]
            for t, tensor in enumerate(self._graph.tensors)
            for value, states in enumerate(domains[t])
            if COPIES in states
        }
        _, values = greedy(
            tuple(self._factors(tables, domains, among)),
            self._variables(domains, among)[0],
            defers_ties=self._options.method is not Method.GREEDY,
            extra_bytes=extra,
            budget_bytes=self._options.copies_bytes,
        )
        return tuple(domain[value] for domain, value in zip(domains, values, strict=False))

    def _kept(self, place: int, domain: tuple[States, ...], lengths: tuple[int, ...]) -> CostFactor:
        tensor = self._graph.tensors[place]
        kept = [max(1, tensor.stored) * tile_bytes(tensor, states, lengths) for states in domain]
        return _squeezed(CostFactor((place,), self._options.memory_weight * np.array(kept)))


def priced_by(tables: Tables, layouts: tuple[States, ...]) -> FoundTiling:
    """The tiling with these layouts, each operator being cut in the cheapest way."""
    known: dict[object, tuple[float, Combination]] = {}
    chosen = []
    for operator in tables.graph.operators:
        given = tuple(layouts[t] for t in operator.operands)
        tensors = [tables.graph.tensors[t] for t in operator.operands]
        dims = tuple(tables.graph.dims[t] for t in operator.operands)
        sizes = tuple((t.size_bytes, t.stored > 0) for t in tensors), dims
        key = (operator.forms, len(operator.inputs), operator.count, operator.may_repeat, given, sizes)
        if key not in known:
            known[key] = tables.best(operator, given, tables.combinations(operator))
        chosen.append(known[key])
    return FoundTiling(layouts, tuple(c for _, c in chosen), sum(cost for cost, _ in chosen))


def _continued(among: tuple[Combination, ...], before: Combination) -> tuple[Combination, ...]:
    """The combinations that begin with the one before; all of them if none does."""
    states = [form.states for form in before]
    return tuple(c for c in among if [form.states for form in c[: len(before)]] == states) or among


def _squeezed(factor: CostFactor) -> CostFactor:
    """The table without the dims of tensors that have only one layout."""
    kept = [(t, size) for t, size in zip(factor.scope, factor.costs.shape, strict=True) if size > 1]
    return CostFactor(tuple(t for t, _ in kept), factor.costs.reshape([size for _, size in kept]))
