"""Tilings by simple rules, with which found tilings are compared."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod

from autodist.cost.resharding import WHOLE, AxisTiles
from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseOperator
from autodist.search.tilings._domains import States, is_fair
from autodist.search.tilings._factor_tables import Combination, Tables
from autodist.search.tilings._tiling_search import FoundTiling, SearchOptions, find_tiling, priced


class Baseline(enum.Enum):
    """A rule that lays out all tensors."""

    DATA = "data"
    """Rows of the batch are cut, weights are whole, gradients are reduced."""
    MODEL = "model"
    """Weights are cut along their first dim, activations along their last one, or whole."""
    ALL_ROW = "all-row"
    """Everything is cut along its first dim."""
    EQUAL_CHOP = "equal-chop"
    """Each tensor is cut along one dim over all devices: the best of these."""
    ONE_WEIRD_TRICK = "one-weird-trick"
    """Convolutions are data parallel, dense layers are cut (Krizhevsky)."""


def baseline_tiling(
    graph: CoarseGraph,
    lengths: tuple[int, ...],
    baseline: Baseline,
    tiles: AxisTiles = AxisTiles.BOXES,
    exchange_bytes: float = 0.0,
) -> FoundTiling:
    """Return the tiling that a rule makes; what can't be cut evenly is whole.

    Args:
        graph: The graph; its inputs say which dim their batch is.
        lengths: Lengths of the axes of the mesh.
        baseline: The rule.
        tiles: How tiles lie.
        exchange_bytes: The price of an exchange that the computation waits for, in moved bytes.
    """
    if baseline is Baseline.EQUAL_CHOP:
        return find_tiling(graph, (prod(lengths),), SearchOptions(tiles=tiles, exchange_bytes=exchange_bytes))
    rows = batch_dims(graph)
    if baseline is Baseline.DATA:
        layouts = [_along(graph, t, _data_dim(graph, t, dim, lengths), lengths) for t, dim in enumerate(rows)]
        tables = Tables(graph, lengths, tiles, exchange_bytes)
        forced = {k: _by_rows(tables, operator, rows) for k, operator in enumerate(graph.operators)}
        return priced(graph, lengths, layouts, tiles, forced, exchange_bytes)
    if baseline is Baseline.ALL_ROW:
        firsts = [_along(graph, t, _first_cuttable(graph, t, lengths), lengths) for t in range(len(graph.tensors))]
        return priced(graph, lengths, firsts, tiles, exchange_bytes=exchange_bytes)
    allowed = _mixed if baseline is Baseline.ONE_WEIRD_TRICK else _by_model
    fixed = {t: allowed(graph, t, rows[t], lengths) for t in range(len(graph.tensors))}
    allowed_layouts = {t: found for t, found in fixed.items() if found}
    options = SearchOptions(tiles=tiles, fixed=allowed_layouts, exchange_bytes=exchange_bytes)
    return find_tiling(graph, lengths, options)


def batch_dims(graph: CoarseGraph) -> tuple[int | None, ...]:
    """By tensor, the dim along which its rows are the batch's, as far as operators pass it on."""
    found = [tensor.batch_dim for tensor in graph.tensors]
    for operator in graph.operators:
        count = len(operator.inputs)
        for form in operator.forms:
            taken = zip(operator.inputs, form.states, strict=False)
            if form.index and any(state >= 0 and state == found[t] for t, state in taken):
                for t, state in zip(operator.outputs, form.states[count:], strict=True):
                    if state >= 0 and found[t] is None and not graph.tensors[t].stored:
                        found[t] = state
    return tuple(found)


def _data_dim(graph: CoarseGraph, t: int, rows: int | None, lengths: tuple[int, ...]) -> int | None:
    """The dim that data parallelism cuts: the batch; none of a weight; the first one of a gradient of a weight."""
    return rows if rows is not None or graph.tensors[t].stored else _first_cuttable(graph, t, lengths)


def _along(graph: CoarseGraph, t: int, dim: int | None, lengths: tuple[int, ...]) -> States:
    states = (WHOLE if dim is None or dim not in graph.dims[t] else dim,) * len(lengths)
    return states if is_fair(graph, t, states, lengths) else (WHOLE,) * len(lengths)


def _first_cuttable(graph: CoarseGraph, t: int, lengths: tuple[int, ...]) -> int | None:
    axes = len(lengths)
    return next((dim for dim in graph.dims[t] if is_fair(graph, t, (dim,) * axes, lengths)), None)


def _by_rows(tables: Tables, operator: CoarseOperator, rows: Sequence[int | None]) -> tuple[Combination, ...]:
    """The ways in which an operator is cut by the batch; all if there is none."""
    found = []
    for combination in tables.combinations(operator):
        cut = [dict(zip(operator.operands, form.states, strict=True)) for form in combination]
        if all(any(_is_of(rows[t], state) for t, state in states.items()) for states in cut) and all(
            state == WHOLE or rows[t] is None or state == rows[t] for states in cut for t, state in states.items()
        ):
            found.append(combination)
    return tuple(found)


def _is_of(rows: int | None, state: int) -> bool:
    return rows is not None and state == rows


def _by_model(graph: CoarseGraph, t: int, rows: int | None, lengths: tuple[int, ...]) -> tuple[States, ...]:
    whole = (WHOLE,) * len(lengths)
    if rows is None:
        return (_along(graph, t, _first_cuttable(graph, t, lengths), lengths),)
    columns = [dim for dim in graph.dims[t] if dim != rows]
    return tuple(dict.fromkeys((_along(graph, t, columns[-1] if columns else None, lengths), whole)))


def _mixed(graph: CoarseGraph, t: int, rows: int | None, lengths: tuple[int, ...]) -> tuple[States, ...]:
    """The allowed layouts of a tensor: weights of dense layers are cut, and activations of these layers are free."""
    rank = len(graph.tensors[t].shape)
    if rank > 2:
        return (_along(graph, t, _data_dim(graph, t, rows, lengths), lengths),)
    if not graph.tensors[t].stored:
        return ()
    choices = tuple(_along(graph, t, dim, lengths) for dim in graph.dims[t])
    return tuple(states for states in choices if WHOLE not in states)
