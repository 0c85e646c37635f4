"""A step as TensorFlow sees it for one number of examples: its shapes, and what it computes from them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import Self

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


class SizePrograms:
    """The results that a step computes from its shapes, as graphs made once and run for each number of examples."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], tuple[Any, dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Free the graphs: they refer to their operations and these to them."""
        from tensorflow.python.framework.ops import dismantle_graph

        for graph, _ in self._made.values():
            dismantle_graph(graph)
        self._made.clear()

    def values(self, graph_def: Any, given: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """The values of some tensors of a graph, some of whose inputs are given.

        Args:
            graph_def: The nodes that compute the tensors, the same for the same tensors.
            given: By name with the number of the output, the values of those that are computed elsewhere.
            wanted: The tensors.

        Raises:
            ValueError: TensorFlow refuses to compute them.
        """
        import tensorflow as tf

        key = tuple(wanted)
        if key not in self._made:
            self._made[key] = _imported(graph_def, given)
        graph, placeholders = self._made[key]
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        config.graph_options.optimizer_options.opt_level = -1  # optimizing would take longer than it saves
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        feed = {placeholder: given[tensor] for tensor, placeholder in placeholders.items()}
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            try:
                found = session.run([f"sizes/{tensor}" for tensor in wanted], feed)
            except tf.errors.OpError as error:
                raise ValueError(error.message) from error
        return dict(zip(wanted, map(np.asarray, found), strict=True))


def _imported(graph_def: Any, given: Mapping[str, np.ndarray]) -> tuple[Any, dict[str, Any]]:
    """A graph of these nodes; and by tensor that they take and do not compute, the placeholder for it."""
    import tensorflow as tf

    names = {node.name for node in graph_def.node}
    needed = dict.fromkeys(t for node in graph_def.node for t in node.input if node_of(t) not in names)
    placeholders: dict[str, Any] = {}
    mapped: dict[str, Any] = {}
    with tf.Graph().as_default() as graph:
        for tensor in needed:
            key = "{}:{}".format(*split_tensor(tensor))
            if key not in placeholders:
                placeholders[key] = tf.compat.v1.placeholder(given[key].dtype)
            mapped[full_name(tensor)] = placeholders[key]
        tf.graph_util.import_graph_def(graph_def, input_map=mapped, name="sizes")
    return graph, placeholders
