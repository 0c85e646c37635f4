"""Values that are known before the step runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, full_name, is_stateful, node_of
from autodist.graph._scratch_graph import scratch_graph

_MOST_NODES = 100  # larger subgraphs depend on something large, or are not constant


def static_value(nodes: dict[str, Any], tensor: str) -> Any:
    """The value of a tensor that depends on constants only, as a NumPy array; None for any other."""
    behind = _behind(nodes, node_of(tensor))
    if behind is None:
        return None
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2

    graph_def = graph_pb2.GraphDef()
    for name in behind:
        node = graph_def.node.add()
        node.CopyFrom(nodes[name])
        node.device = ""
        if "_class" in node.attr:
            del node.attr["_class"]
        del node.input[:]
        node.input.extend(data_inputs(nodes[name]))
    with scratch_graph() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        output = graph.get_tensor_by_name(full_name(tensor))
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(output)


def is_zero(nodes: Mapping[str, Any], tensor: str) -> bool:
    """Whether all elements of a tensor are zero, however many there are.

    Args:
        nodes: A flat graph, or the body of a function, by name.
        tensor: One of its tensors.
    """
    node = nodes[node_of(tensor)]
    if node.op == "Const":
        return not constant_value(node).any()
    if node.op == "Fill":
        return is_zero(nodes, data_inputs(node)[1])
    return node.op == "ZerosLike" or (node.op == "Identity" and is_zero(nodes, data_inputs(node)[0]))


def _behind(nodes: dict[str, Any], name: str) -> dict[str, None] | None:
    """The nodes that a node is computed from, itself included; None if not all of them are always the same."""
    found: dict[str, None] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        if current in found:
            continue
        node = nodes[current]
        if is_stateful(node.op) or node.op.startswith("Placeholder") or len(found) >= _MOST_NODES:
            return None
        found[current] = None
        stack.extend(node_of(source) for source in data_inputs(node))
    return found
