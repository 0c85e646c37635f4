"""A step as TensorFlow sees it for one number of examples: its shapes, and what it computes from them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from autodist.graph._graph_def import (
    data_inputs,
    full_name,
    node_of,
    split_tensor,
    strip_missing_colocation,
    tensor_dtype,
)
from autodist.graph._nodes import NodeList
from autodist.graph._scratch_graph import scratch_graph

__all__ = ["Variables", "computed_sizes", "inferred_shapes", "sized_step"]

Variables: TypeAlias = Mapping[str, tuple[str, "tuple[int | None, ...]"]]
"""By placeholder of a handle, the element type and the shape of the variable."""


def sized_step(graph_def: Any, split: Container[str], variables: Variables, size: int) -> Any:
    """A step for one number of examples, whose variables have their shapes, and in which nothing waits."""
    import tensorflow as tf

    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        node.attr.pop("_output_shapes", None)
        node.device = ""
        if any(tensor.startswith("^") for tensor in node.input):
            given = data_inputs(node)
            del node.input[:]
            node.input.extend(given)
        if node.name in split:
            node.attr["shape"].shape.dim[0].size = size
        elif node.name in variables:
            dtype, shape = variables[node.name]
            handles = NodeList()
            handles.add("VarHandleOp", node.name, dtype=dtype, shape=shape)
            node.CopyFrom(handles.nodes[0])
    strip_missing_colocation(copy)
    return copy


def inferred_shapes(
    graph_def: Any, numbers: Mapping[str, np.ndarray], opened: Mapping[str, tuple[int | None, ...]]
) -> dict[str, list[tuple[int | None, ...] | None]]:
    """The static shapes of all nodes, where some small tensors are known to be constant, and some shapes are known."""
    import tensorflow as tf

    constant = {node.name for node in graph_def.node if node.op == "Const"}
    with scratch_graph() as graph:
        constants = {
            tensor: tf.constant(value, name="autodist_known")
            for tensor, value in numbers.items()
            if node_of(tensor) not in constant
        }
        nodes = {node.name: node for node in graph_def.node} if opened else {}
        shaped = {
            full_name(tensor): tf.compat.v1.placeholder(tensor_dtype(nodes, tensor), shape, "autodist_opened")
            for tensor, shape in opened.items()
        }
        tf.graph_util.import_graph_def(graph_def, input_map={**constants, **shaped}, name="")
        found = {
            operation.name: [None if o.shape.rank is None else tuple(o.shape.as_list()) for o in operation.outputs]
            for operation in graph.get_operations()
        }
    for tensor, known in opened.items():
        name, index = split_tensor(tensor)
        found[name][index] = known
    return found


def computed_sizes(graph_def: Any, given: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The values of some tensors of a graph, some of whose inputs are given.

    Raises:
        ValueError: TensorFlow refuses to compute them.
    """
    import tensorflow as tf

    names = {node.name for node in graph_def.node}
    needed = {tensor for node in graph_def.node for tensor in node.input if node_of(tensor) not in names}
    with scratch_graph() as graph:
        fed = {tensor: tf.constant(given["{}:{}".format(*split_tensor(tensor))]) for tensor in needed}
        tf.graph_util.import_graph_def(graph_def, input_map={full_name(t): c for t, c in fed.items()}, name="sizes")
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            try:
                values = session.run([f"sizes/{tensor}" for tensor in wanted])
            except tf.errors.OpError as error:
                raise ValueError(error.message) from error
    return dict(zip(wanted, map(np.asarray, values), strict=True))
