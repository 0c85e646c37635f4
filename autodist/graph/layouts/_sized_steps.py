"""A step as TensorFlow sees it for one number of examples: its shapes, and what it computes from them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import numpy as np

from autodist.graph._graph_def import (
    data_inputs,
    node_of,
    split_tensor,
    strip_missing_colocation,
    tensor_dtype,
)
from autodist.graph._inferred_shapes import inferred_shapes
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


def sized_shapes(
    graph_def: Any, numbers: Mapping[str, np.ndarray], opened: Mapping[str, tuple[int | None, ...]]
) -> dict[str, list[tuple[int | None, ...] | None]]:
    """The static shapes of all nodes, where some small tensors are known to be constant, and some shapes are known."""
    nodes = {node.name: node for node in graph_def.node}
    known = NodeList()
    replaced: dict[str, str] = {}
    for tensor, value in numbers.items():
        if nodes[node_of(tensor)].op != "Const":
            replaced[tensor] = known.constant(f"autodist_known_{len(replaced)}", value, value.dtype.name)
    for tensor, shape in opened.items():
        name = f"autodist_known_{len(replaced)}"
        replaced[tensor] = known.add("Placeholder", name, dtype=tensor_dtype(nodes, tensor), shape=shape)
    found = inferred_shapes(graph_def, known.nodes, replaced)
    for tensor, shape in opened.items():
        name, index = split_tensor(tensor)
        found[name][index] = shape
    return found


class SizeProgram:
    """Computations of a step from its shapes, each of them once: layers that are alike ask for the same.

    Args:
        given: By name with the number of the output, the values that are known already.

    Example:
        >>> import numpy as np, tensorflow as tf
        >>> with tf.Graph().as_default() as graph:
        ...     shape = tf.compat.v1.placeholder(tf.int32, (2,), "shape")
        ...     one, other = tf.negative(shape, "one"), tf.negative(shape, "other")
        >>> program = SizeProgram({"shape:0": np.array([2, 3], np.int32)})
        >>> nodes = graph.as_graph_def().node
        >>> for node in nodes[1:]:
        ...     program.add(node, 1)
        >>> program.values()["other:0"].tolist()
        [-2, -3]
    """

    def __init__(self, given: Mapping[str, np.ndarray]) -> None:
        from tensorflow.core.framework import graph_pb2

        self._given = given
        self._graph_def = graph_pb2.GraphDef()
        self._same: dict[str, str] = {}
        self._first: dict[object, str] = {}
        self._made: dict[str, int] = {}

    def add(self, node: Any, num_outputs: int) -> None:
        """Add a node that takes given values and results of nodes that were added before."""
        nodes = NodeList()
        nodes.clone(node, "", map(self._one_of, data_inputs(node)))
        [copy] = nodes.nodes
        first = self._first.setdefault(copy.SerializeToString(deterministic=True), node.name)
        self._same.update({f"{node.name}:{k}": f"{first}:{k}" for k in range(num_outputs)})
        if first == node.name:
            copy.name = node.name
            self._graph_def.node.append(copy)
            self._made[node.name] = num_outputs

    def _one_of(self, tensor: str) -> str:
        """The first tensor that is known to have the same value as this one."""
        name = "{}:{}".format(*split_tensor(tensor))
        if name not in self._same:
            value = self._given[name]
            self._same[name] = self._first.setdefault((value.dtype, value.shape, value.tobytes()), name)
        return self._same[name]

    def values(self) -> dict[str, np.ndarray]:
        """The results of all nodes, by name with the number of the output.

        Raises:
            ValueError: TensorFlow refuses to compute them.
        """
        import tensorflow as tf

        if not self._made:
            return {}
        wanted = [f"{name}:{k}" for name, count in self._made.items() for k in range(count)]
        taken = dict.fromkeys(t for node in self._graph_def.node for t in node.input if node_of(t) not in self._made)
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        config.graph_options.optimizer_options.opt_level = -1  # optimizing would take longer than it saves
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with scratch_graph() as graph:
            fed = {tensor: tf.compat.v1.placeholder(self._given[tensor].dtype) for tensor in taken}
            tf.graph_util.import_graph_def(self._graph_def, input_map=fed, name="sizes")
            with tf.compat.v1.Session(graph=graph, config=config) as session:
                try:
                    feed = {placeholder: self._given[tensor] for tensor, placeholder in fed.items()}
                    found = session.run([f"sizes/{tensor}" for tensor in wanted], feed)
                except tf.errors.OpError as error:
                    raise ValueError(error.message) from error
        computed = dict(zip(wanted, map(np.asarray, found), strict=True))
        return {tensor: computed[first] for tensor, first in self._same.items() if first in computed}
