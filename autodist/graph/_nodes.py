"""Making nodes of a GraphDef by hand, with attributes typed by the op's definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class NodeList:
    """Nodes being added to a graph; each method returns the name of the tensor it makes.

    Args:
        device: The device of every node that does not name its own.

    Example:
        >>> nodes = NodeList(device="/device:CPU:0")
        >>> half = nodes.constant("half", 0.5, "float32")
        >>> nodes.add("Mul", "halved", ["loss", half], T="float32")
        'halved'
        >>> [node.name for node in nodes.nodes]
        ['half', 'halved']
    """

    def __init__(self, device: str = "") -> None:
        self.device = device
        self.nodes: list[Any] = []

    def add(self, op: str, name: str, inputs: Iterable[str] = (), *, device: str | None = None, **attrs: Any) -> str:
        """Add a node of type `op`."""
        from tensorflow.python.framework import op_def_registry

        node = self._blank()
        node.op, node.name, node.device = op, name, self.device if device is None else device
        node.input.extend(inputs)
        definition = op_def_registry.get(op)
        assert definition is not None, f"op {op} is not registered"
        kinds = {"_output_shapes": "list(shape)", **{attr.name: attr.type for attr in definition.attr}}
        for key, value in attrs.items():
            _set(node.attr[key], kinds[key], value)
        self._enter(node)
        return name

    def clone(
        self,
        node: Any,
        name: str,
        inputs: Iterable[str] = (),
        *,
        device: str | None = None,
        without: Iterable[str] = ("_class", "_output_shapes"),
    ) -> str:
        """Add a node like another one, by default without that one's place and shapes.

        Args:
            node: The other one.
            name: The new one's name.
            inputs: The inputs of the new node.
            device: Where it runs.
            without: The attributes that it does not have.
        """
        copy = self._blank()
        copy.CopyFrom(node)
        copy.name, copy.device = name, self.device if device is None else device
        copy.input[:] = list(inputs)
        for attribute in without:
            copy.attr.pop(attribute, None)
        self._enter(copy)
        return name

    def _blank(self) -> Any:
        """A new node without content, to be filled in and then passed to `_enter`."""
        from tensorflow.core.framework import node_def_pb2

        return node_def_pb2.NodeDef()

    def _enter(self, node: Any) -> None:
        """Add a node that is complete."""
        self.nodes.append(node)

    def constant(self, name: str, value: Any, dtype: str) -> str:
        """Add a constant."""
        import tensorflow as tf

        node_dtype = tf.as_dtype(dtype)
        self.add("Const", name, dtype=dtype)
        array = np.asarray(value, dtype=node_dtype.as_numpy_dtype)
        self.nodes[-1].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array, dtype=node_dtype))
        return name

    def identity(self, name: str, tensor: str, dtype: str) -> str:
        """Add another name for a tensor."""
        return self.add("Identity", name, [tensor], T=dtype)

    def sum(self, name: str, tensors: Sequence[str], dtype: str) -> str:
        """Add the sum of tensors of one shape."""
        if len(tensors) == 1:
            return self.identity(name, tensors[0], dtype)
        return self.add("AddN", name, tensors, N=len(tensors), T=dtype)

    def concat(self, name: str, tensors: Sequence[str], dtype: str, dim: int = 0) -> str:
        """Add the concatenation of tensors along a dim."""
        if len(tensors) == 1:
            return self.identity(name, tensors[0], dtype)
        position = self.constant(f"{name}/dim", dim, "int32")
        return self.add("ConcatV2", name, [*tensors, position], N=len(tensors), T=dtype, Tidx="int32")

    def cast(self, name: str, tensor: str, source: str, target: str) -> str:
        """Add a cast, unless the dtypes are equal."""
        if source == target:
            return tensor
        return self.add("Cast", name, [tensor], SrcT=source, DstT=target)

    def reshape(self, name: str, tensor: str, shape: Sequence[int], dtype: str) -> str:
        """Add a reshape to a static shape; -1 means one unknown dim."""
        target = self.constant(f"{name}/shape", list(shape), "int32")
        return self.add("Reshape", name, [tensor, target], T=dtype, Tshape="int32")

    def transpose(self, name: str, tensor: str, order: Sequence[int], dtype: str) -> str:
        """Add a transpose; the tensor itself if its dims stay in their order."""
        count = len(order)
        if list(order) == sorted(order):
            return tensor
        if [*order] == [*range(count - 2), count - 1, count - 2]:
            # TensorFlow would make it a part of the matrix product that takes it. If that product transposes its other
            # matrix too, as the gradient of a dense layer's input does, it then takes five times as long.
            dim = self.constant(f"{name}/dim", count, "int32")
            apart = self.add("ExpandDims", f"{name}/apart", [tensor, dim], T=dtype, Tdim="int32")
            turned = self.transpose(f"{name}/turned", apart, [*order, count], dtype)
            return self.add("Squeeze", name, [turned], T=dtype, squeeze_dims=[count])
        perm = self.constant(f"{name}/perm", list(order), "int32")
        return self.add("Transpose", name, [tensor, perm], T=dtype, Tperm="int32")


def _set(attr: Any, kind: str, value: Any) -> None:
    import tensorflow as tf

    if kind == "type":
        attr.type = tf.as_dtype(value).as_datatype_enum
    elif kind == "list(type)":
        attr.list.type.extend(tf.as_dtype(v).as_datatype_enum for v in value)
    elif kind == "list(int)":
        attr.list.i.extend(value)
    elif kind == "list(shape)":
        attr.list.shape.extend(tf.TensorShape(v).as_proto() for v in value)
    elif kind == "shape":
        attr.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "int":
        attr.i = value
    elif kind == "float":
        attr.f = value
    elif kind == "bool":
        attr.b = value
    elif kind == "string":
        attr.s = value.encode()
    else:
        raise AssertionError(f"attribute type {kind} is not handled")
