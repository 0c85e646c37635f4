"""Lookups in a table that is cast: the rows are cast instead, so that only they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, node_of
from autodist.graph.operators import meaning


def takes_rows(node: Any, nodes: Mapping[str, Any]) -> bool:
    """Whether a node takes whole rows of a table, its first input by value or by handle, along the first dim."""
    lookup = meaning(node.op).lookup
    if lookup is None or lookup.by_coordinates or node.attr["batch_dims"].i:
        return False
    inputs = data_inputs(node)
    axis = constant_value(nodes[node_of(inputs[2])]) if len(inputs) > 2 else 0
    return axis is not None and int(axis) == 0


def look_up_before_casting(graph_def: Any) -> None:
    """Have lookups in ``tf.cast(table, ...)`` take rows of the table itself, and cast these; the values are the same.

    Args:
        graph_def: A flat graph, which is changed.
    """
    nodes = {node.name: node for node in graph_def.node}
    found = [(node, cast) for node in graph_def.node if (cast := _cast_below(node, nodes)) is not None]
    for node, cast in found:
        rows = graph_def.node.add()
        rows.CopyFrom(node)
        rows.name = f"{node.name}/rows"
        rows.input[0] = cast.input[0]
        rows.attr["Tparams"].type = cast.attr["SrcT"].type
        node.op = "Cast"
        del node.input[:]
        node.input.append(rows.name)
        for attribute in set(node.attr) - {"_output_shapes"}:
            del node.attr[attribute]
        for attribute in ("SrcT", "DstT", "Truncate"):
            node.attr[attribute].CopyFrom(cast.attr[attribute])


def _cast_below(node: Any, nodes: dict[str, Any]) -> Any:
    """The cast of a whole variable whose result a node looks rows up in."""
    if not takes_rows(node, nodes):
        return None
    cast = nodes[node_of(node.input[0])]
    if cast.op != "Cast" or nodes[node_of(cast.input[0])].op != "ReadVariableOp":
        return None
    return cast
