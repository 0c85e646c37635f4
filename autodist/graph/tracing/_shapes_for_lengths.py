"""Lengths: the shapes of a step that was traced with open dims, for batches whose dims have certain sizes.

How replicas share a step is found out by the sizes of all dims but that of the batch. A step that was traced for any
length is described for some length here, as if it had been traced for that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import called_functions, data_inputs, output_shape, split_tensor, tensor_shape
from autodist.graph._inferred_shapes import inferred_shapes
from autodist.graph.operators import LOOPS

Shape = tuple[int | None, ...] | None
_SHAPES = "_output_shapes"


def with_lengths(flat: Any, sizes: Mapping[str, Sequence[int | None]]) -> Any:
    """A copy of a flat graph, with the shapes of all tensors for inputs of these shapes.

    Args:
        flat: The graph, with the functions that it calls.
        sizes: By name of a placeholder, its shape.

    Raises:
        CaptureError: The shape of a tensor has two open dims or more even so: one is not that of the batch.
    """
    copy = type(flat)()
    copy.CopyFrom(flat)
    _infer(copy.node, copy, sizes)
    nodes = {node.name: node for node in copy.node}
    _infer_in_functions(nodes, copy)
    return copy


def _infer_in_functions(nodes: Mapping[str, Any], graph_def: Any) -> None:
    """Give the nodes of functions the shapes for the arguments with which they are called."""
    definitions = {function.signature.name: function for function in graph_def.library.function}
    for node in nodes.values():
        for called in called_functions(node):
            definition = definitions.get(called.name)
            if definition is None:
                continue
            given = data_inputs(node)[-len(definition.signature.input_arg) :]
            arguments = [argument.name for argument in definition.signature.input_arg]
            shapes = {a: tensor_shape(nodes, t) for a, t in zip(arguments, given, strict=True)}
            _infer_in(definition, graph_def, {a: shape for a, shape in shapes.items() if shape is not None})


def _infer_in(definition: Any, graph_def: Any, sizes: Mapping[str, Sequence[int | None]]) -> None:
    bodies = FunctionBodies(graph_def)
    body = bodies.nodes(definition.signature.name)
    _infer(body.values(), graph_def, sizes)
    for number, argument in enumerate(definition.signature.input_arg):
        shapes = definition.arg_attr[number].attr[_SHAPES].list.shape
        del shapes[:]
        shapes.add().CopyFrom(body[argument.name].attr["shape"].shape)
    for node in definition.node_def:
        node.attr[_SHAPES].CopyFrom(body[node.name].attr[_SHAPES])
    _infer_in_functions(body, graph_def)


def _infer(nodes: Iterable[Any], source: Any, sizes: Mapping[str, Sequence[int | None]]) -> None:
    """Give nodes the shapes that TensorFlow infers where some placeholders have these; they are changed in place.

    Raises:
        CaptureError: Some tensor has two open dims.
    """
    known = {node.name: node for node in nodes}
    loops = {name: _loop_shapes(node, known) for name, node in known.items() if node.op in LOOPS}
    graph_def = type(source)(versions=source.versions, library=source.library)
    for name, node in known.items():
        if name in sizes:
            _set(node.attr["shape"].shape, sizes[name])
        made = graph_def.node.add()
        made.CopyFrom(node)
        made.attr.pop(_SHAPES, None)
        if name in loops and all(shape is None for shape in loops[name]):
            made.attr["output_shapes"].list.SetInParent()
            del made.attr["output_shapes"].list.shape[:]
    for name, shapes in inferred_shapes(graph_def).items():
        node = known[name]
        before = [output_shape(node, k) for k in range(len(shapes))]
        _note(node, [_sharper(one, other) for one, other in zip(shapes, before, strict=True)])


def _loop_shapes(node: Any, nodes: Mapping[str, Any]) -> list[Shape]:
    """By value that a loop carries, the shape that its turns have in common, where it differs from that of its start."""
    said = node.attr["output_shapes"].list.shape
    starts = [tensor_shape(nodes, tensor) for tensor in data_inputs(node)]
    shapes = [None if s.unknown_rank else tuple(None if d.size < 0 else d.size for d in s.dim) for s in said]
    return [None if shape == start else shape for shape, start in zip(shapes, starts, strict=False)]


def _sharper(one: Shape, other: Shape) -> Shape:
    if one is None or other is None or len(one) != len(other):
        return other if one is None else one
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def _note(node: Any, shapes: Sequence[Shape]) -> None:
    listed = node.attr[_SHAPES].list
    del listed.shape[:]
    for shape in shapes:
        if shape is not None and shape.count(None) > 1:
            raise CaptureError(f"op `{node.name}` ({node.op}) has several dims of unknown size")
        _set(listed.shape.add(), shape)


def _set(proto: Any, shape: Sequence[int | None] | None) -> None:
    from tensorflow.core.framework import tensor_shape_pb2

    proto.Clear()
    proto.unknown_rank = shape is None
    proto.dim.extend(tensor_shape_pb2.TensorShapeProto.Dim(size=-1 if n is None else n) for n in shape or ())
