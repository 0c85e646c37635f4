"""Large values that a step takes from outside: frozen tables, embeddings of others, arrays of NumPy.

As constants they would be copied with every copy of the graph, and a GraphDef holds 2 GB at most. So they become
variables that nothing writes: the session holds them in the memory of the program's own tensors. Small values stay
constants, because what is computed from them is looked at: shapes, dims, ranges.

TensorFlow makes constants of arrays while it traces, and tensors of another graph it captures. So large arrays are made
tensors before, one for each content: the constant of a large array costs it minutes, and several copies.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from autodist.graph._attribute_patches import Patches
from autodist.graph._graph_def import FROZEN
from autodist.graph.analysis import BareVariable

if TYPE_CHECKING:
    from autodist.graph.tracing._captured_step import VariableNames

FROZEN_FROM_BYTES = 64 * 1024


class FrozenValues:
    """The tensors and the variables that replace large values, one for each content."""

    def __init__(self) -> None:
        self._contents: dict[int, tuple[Any, str]] = {}
        self._tensors: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}

    def tensor(self, array: np.ndarray) -> Any:
        """An eager tensor with an array's content."""
        import tensorflow as tf

        content = _digest(array)
        if content not in self._tensors:
            with tf.init_scope():
                value = self._tensors[content] = tf.constant(array)
            self._contents[id(value)] = value, content
        return self._tensors[content]

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


@contextlib.contextmanager
def large_arrays_as_tensors(values: FrozenValues) -> Iterator[None]:
    """Let the code that is traced inside capture large arrays, instead of making constants of them."""
    import tensorflow as tf
    from tensorflow.python.framework import ops
    from tensorflow.python.framework.func_graph import FuncGraph

    def wrap(original: Any) -> Any:
        def constant(value: Any, dtype: Any, shape: Any, *others: Any, **named: Any) -> Any:
            graph = ops.get_default_graph()
            if not isinstance(graph, FuncGraph) or not _is_large(value, shape):
                return original(value, dtype, shape, *others, **named)
            wanted = value.dtype if dtype is None else tf.as_dtype(dtype).as_numpy_dtype
            return graph.capture(values.tensor(value.astype(wanted, copy=False)))  # the array's present content

        return constant

    with Patches() as patches:
        patches.replace(ops, "_create_graph_constant", wrap)
        yield


def _is_large(value: Any, shape: Any) -> bool:
    """Whether a value is a large array of numbers, of this shape if one is given."""
    is_array = isinstance(value, np.ndarray) and value.nbytes > FROZEN_FROM_BYTES and value.dtype.kind in "biufc"
    return is_array and (shape is None or tuple(shape) == value.shape)


def freeze(flat: Any, tracing: Any, names: VariableNames) -> list[tuple[BareVariable, Any]]:
    """Make variables of large values in a graph.

    Args:
        flat: The graph, which is changed.
        tracing: TensorFlow's graph that it comes from, which has captured eager tensors.
        names: Where variables get their names.

    Returns:
        The variables with the program's handles.
    """
    found = list(_large(flat, _captured_values(tracing)))
    return [_freeze(flat, node, value, names) for node, value in found]


def embed_constants(flat: Any, tracing: Any) -> None:
    """Turn the captured eager tensors that are left in a graph into constants."""
    import tensorflow as tf

    values = _captured_values(tracing)
    for node in flat.node:
        if node.name not in values or node.op != "Placeholder":
            continue
        value = values[node.name]
        node.op = "Const"
        node.attr.clear()
        node.attr["dtype"].type = value.dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy(), dtype=value.dtype))
        node.attr["_output_shapes"].list.shape.add().CopyFrom(value.shape.as_proto())


def _captured_values(graph: Any) -> dict[str, Any]:
    """By placeholder, the captured eager tensors."""
    import tensorflow as tf

    return {inner.op.name: outer for outer, inner in graph.captures if outer.dtype not in (tf.resource, tf.variant)}


def _large(graph_def: Any, captures: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
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
