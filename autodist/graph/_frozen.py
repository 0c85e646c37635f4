"""Large values that a step takes from outside: frozen tables, embeddings of others, arrays of NumPy.

As constants they would be copied with every copy of the graph, and a GraphDef holds 2 GB at most. So they become
variables that nothing writes: the session holds them in the memory of the program's own tensors. Small values stay
constants, because what is computed from them is looked at: shapes, dims, ranges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autodist.graph._graph_def import FROZEN
from autodist.graph._roles import BareVariable

if TYPE_CHECKING:
    from autodist.graph._capture import VariableNames

__all__ = ["FROZEN_FROM_BYTES", "FrozenValues", "freeze"]

FROZEN_FROM_BYTES = 64 * 1024


class FrozenValues:
    """The variables that stand for large values, one for each content."""

    def __init__(self) -> None:
        self._contents: dict[int, tuple[Any, str]] = {}
        self._variables: dict[str, Any] = {}

    def variable(self, value: Any) -> tuple[str, Any]:
        """A hash of an eager tensor's content, and a variable in its memory."""
        import tensorflow as tf

        if id(value) not in self._contents:
            self._contents[id(value)] = value, _digest(value._numpy())  # keeps it alive, so that its id stays its own
        content = self._contents[id(value)][1]
        if content not in self._variables:
            with tf.init_scope():
                self._variables[content] = tf.Variable(value, trainable=False, name="frozen")
        return content, self._variables[content]


def freeze(graph_def: Any, captures: Mapping[str, Any], names: VariableNames) -> list[tuple[BareVariable, Any]]:
    """Make variables of large values in a graph.

    Args:
        graph_def: The graph, which is changed.
        captures: By placeholder, the eager tensors that it has captured.
        names: Where variables get their names.

    Returns:
        The variables with the program's handles.

    """
    found = list(_large(graph_def, captures))
    return [_freeze(graph_def, node, value, names) for node, value in found]


def _large(graph_def: Any, captures: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The nodes that give large numbers, and their values."""
    import tensorflow as tf

    for node in graph_def.node:
        if node.op == "Const" and node.attr["value"].tensor.ByteSize() > FROZEN_FROM_BYTES:
            with tf.init_scope():
                value = tf.constant(tf.make_ndarray(node.attr["value"].tensor))
        elif node.name in captures:
            value = captures[node.name]
        else:
            continue
        is_plain = value.dtype.is_floating or value.dtype.is_integer or value.dtype.is_bool or value.dtype.is_complex
        if is_plain and not value.dtype.is_quantized and value._numpy().nbytes > FROZEN_FROM_BYTES:
            yield node, value


def _freeze(graph_def: Any, node: Any, value: Any, names: VariableNames) -> tuple[BareVariable, Any]:
    import tensorflow as tf

    content, variable = names.frozen.variable(value)
    handle = graph_def.node.add(name=f"{node.name}/frozen", op="Placeholder")
    handle.attr["dtype"].type = tf.resource.as_datatype_enum
    handle.attr[FROZEN].s = content.encode()
    handle.attr["_output_shapes"].list.shape.add()
    node.op = "ReadVariableOp"
    node.input.insert(0, handle.name)
    node.attr.clear()
    node.attr["dtype"].type = value.dtype.as_datatype_enum
    node.attr["_output_shapes"].list.shape.add().CopyFrom(value.shape.as_proto())
    name = names.name(variable.handle, node.name)
    shape = tuple(value.shape.as_list())
    return BareVariable(name, handle.name, shape, value.dtype.name, content), variable.handle


def _digest(array: np.ndarray) -> str:
    known = hashlib.blake2b(f"{array.dtype} {array.shape}".encode(), digest_size=16)
    known.update(np.ascontiguousarray(array).view(np.uint8).data)
    return known.hexdigest()
