"""Stream rows: a worker sends the numbers of the rows that it looks up, and the table's worker answers with the rows.

TensorFlow runs a lookup where the table lives, as a part of the asking worker's graph: each server is called to run its
part, asks for the row numbers, and is asked for the rows. Here the lookup is part of the server's own step, once for
each worker, and both ways are messages without a request.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph import (
    NodeList,
    StepAnalysis,
    Variable,
    data_inputs,
    node_of,
    output_shape,
    takes_rows,
    tensor_dtype,
)
from autodist.graph.operators import meaning
from autodist.kernels._base import SyncPoint
from autodist.kernels.servers._channels import Streams


@dataclass(frozen=True)
class CommonLookup:
    """A lookup that every worker does, before anything that it could see is updated.

    Attributes:
        node: The lookup without streams; its input 1 holds the row numbers.
        handle: The handle of the table.
        dtypes: Dtypes of the row numbers and of the rows.
        depth: How far from the step's begin its rows are needed.
        num_rows: The number of rows of the table; -1 where it is unknown, or elements are looked up rather than rows.
        shape: The static shape of the rows, as far as it follows from the table; None where nothing is known.
    """

    node: Any
    handle: str
    dtypes: tuple[str, str]
    depth: int
    num_rows: int = -1
    shape: tuple[int | None, ...] | None = None


def lookups_of(
    analysis: StepAnalysis, points: Iterable[SyncPoint], tables: Mapping[str, Variable], needed: Container[str]
) -> list[CommonLookup]:
    """The lookups in some tables, in the order of their names, which is the same on all workers.

    Args:
        analysis: The replicated step.
        points: Where values of workers meet.
        tables: The tables by handle.
        needed: The nodes that all workers compute.
    """
    late = _after_updates(analysis, points)
    found = []
    for name, node in sorted(analysis.nodes.items()):
        handle = _table(analysis, node)
        if handle in tables and name in needed and name not in late:
            dtypes = tensor_dtype(analysis.nodes, node.input[1]), tensor_dtype(analysis.nodes, name)
            num_rows = _num_rows(analysis, node, tables[handle])
            depth = analysis.depth_of_use(analysis.consumers.get(name, ()), needed) or analysis.depths[name]
            shape = _shape_of_rows(node, tables[handle]) if num_rows >= 0 else None
            found.append(CommonLookup(node, handle, dtypes, depth, num_rows, shape))
    return found


def _num_rows(analysis: StepAnalysis, node: Any, table: Variable) -> int:
    """How many rows a lookup chooses from; -1 where that is not known, or where it takes places of single elements."""
    return table.shape[0] if table.shape and takes_rows(node, analysis.nodes) else -1


def _shape_of_rows(node: Any, table: Variable) -> tuple[int | None, ...] | None:
    """The shape of the rows that are looked up; their numbers are the worker's own."""
    known, row = output_shape(node, 0), table.shape[1:]
    return None if known is None else (*(None for _ in known[len(row) :]), *row)


def _table(analysis: StepAnalysis, node: Any) -> str:
    """The handle of the variable that a node looks up rows in; empty for other nodes."""
    lookup = meaning(node.op).lookup
    if lookup is None:
        return ""
    if lookup.by_handle:
        return node_of(node.input[0])
    read = analysis.nodes[node_of(node.input[0])]
    return node_of(read.input[0]) if read.op == "ReadVariableOp" and len(read.input) == 1 else ""


def _after_updates(analysis: StepAnalysis, points: Iterable[SyncPoint]) -> set[str]:
    """The nodes that come after a gradient is synchronized, or after a variable has changed."""
    late = {name for point in points if point.variable is not None for name in point.synced} | analysis.writes.keys()
    for name in analysis.order:
        if not late.isdisjoint(analysis.index.needs[name]):
            late.add(name)
    return late


def ask(stream: Streams, lookup: CommonLookup, rank: int, owner: int) -> tuple[str, str]:
    """Add what the asking worker does; returns the node that sends row numbers, and the one that has the rows."""
    waits = [node_of(tensor) for tensor in lookup.node.input if tensor.startswith("^")]
    ids, rows = lookup.dtypes
    sent = stream.broadcast(f"ids_of_{rank}", "ask", [lookup.node.input[1]], [ids], waits, [owner], lookup.num_rows)
    # Without its row numbers the answer never comes, and TensorFlow could not interrupt the receipt.
    received = stream.take(f"rows_of_{rank}", "rows", [rows], owner, [sent])
    return sent, received if lookup.shape is None else stream.shaped(received, rows, lookup.shape)


def answer(nodes: NodeList, stream: Streams, lookup: CommonLookup, ranks: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Add what the table's worker does for others; returns, by worker, the lookup and the node that sends its rows."""
    own = node_of(lookup.node.input[1])
    found = {}
    for rank in ranks:
        ids = stream.take(f"ids_of_{rank}", f"ids_of_{rank}", [lookup.dtypes[0]], rank, [own])
        table, _, *others = data_inputs(lookup.node)
        name = nodes.clone(lookup.node, f"{stream.prefix}/rows_of_{rank}", [table, ids, *others])
        sent = stream.put(f"rows_of_{rank}", f"answer_{rank}", [name], [lookup.dtypes[1]], (), rank)
        found[rank] = name, sent
    return found
