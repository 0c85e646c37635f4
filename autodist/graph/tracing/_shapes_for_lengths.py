"""The shapes of all tensors of a step that was traced with open dims, for arguments whose dims have certain sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.errors import CaptureError
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    called_functions,
    data_inputs,
    node_of,
    output_shape,
    output_types,
    set_output_shapes,
    set_shape,
    shape_of,
    split_tensor,
    tensor_name,
    tensor_shape,
    topological_order,
)
from autodist.graph._inferred_shapes import inferred_shapes
from autodist.graph.operators import LOOPS, Kind, is_kind
from autodist.graph.tracing._list_lengths import Body, Listed, Lists, Shape, may_grow, shapes_from_lists

_SHAPES = "_output_shapes"
_GIVEN = "autodist_given_"
_ROWS = (10007, 1)
"""Numbers of rows, the most and the least: dims that are not the same for both depend on the rows."""
_MOST_ROUNDS = 12
"""How often shapes are inferred again, since TensorFlow's inference does not see into loops and variables."""


@dataclass(frozen=True)
class Stored:
    """The variable that a handle leads to: lookups have shapes by it, and TensorFlow does not know it of a placeholder.

    Attributes:
        shape: Its shape.
        dtype: The type of its elements.
    """

    shape: Shape
    dtype: str


Given: TypeAlias = Shape | Stored | Listed
"""Facts about a placeholder, or an argument of a function."""


def with_shapes(flat: Any, sizes: Mapping[str, Given]) -> Any:
    """A copy of a flat graph, with the shapes of all tensors for inputs of these shapes.

    Args:
        flat: The graph, with the functions that it calls.
        sizes: By name of a placeholder, its shape, or what it leads to.

    Raises:
        CaptureError: The shape of some tensor can't be told.
        ValueError: TensorFlow refuses these shapes: they do not fit each other.
    """
    found, other = (_with_rows(flat, sizes, rows) for rows in _ROWS)
    _check(found)
    _join(found.node, other.node)
    for one, its in zip(found.library.function, other.library.function, strict=True):
        _join(one.node_def, its.node_def)
        for number, argument in one.arg_attr.items():
            _join_shapes(argument, its.arg_attr[number])
    return found


def _with_rows(flat: Any, sizes: Mapping[str, Given], rows: int) -> Any:
    """A copy of a graph, with its shapes for a number of rows."""
    copy = type(flat)()
    copy.CopyFrom(flat)
    known = {
        name: given
        if given is None or isinstance(given, Stored | Listed)
        else tuple(rows if n is None else n for n in given)
        for name, given in sizes.items()
    }
    _Shapes(copy).infer({node.name: node for node in copy.node}, known)
    return copy


def _join(nodes: Iterable[Any], others: Iterable[Any]) -> None:
    """Open the dims of nodes that depend on the number of rows."""
    for node, other in zip(nodes, others, strict=True):
        _join_shapes(node, other)
        if node.op == "Placeholder":
            _open(node.attr["shape"].shape, other.attr["shape"].shape)


def _join_shapes(one: Any, other: Any) -> None:
    for mine, its in zip(one.attr[_SHAPES].list.shape, other.attr[_SHAPES].list.shape, strict=True):
        _open(mine, its)


def _open(shape: Any, other: Any) -> None:
    if len(shape.dim) != len(other.dim):
        raise CaptureError("the number of dims depends on the number of rows")
    for mine, its in zip(shape.dim, other.dim, strict=True):
        mine.size = mine.size if mine.size == its.size else -1


def _check(graph_def: Any) -> None:
    """Check that the shapes of all tensors are known, where rows are, but for those that depend on data.

    Else an open dim would be taken for the rows, and be some length that TensorFlow can't infer.

    Raises:
        CaptureError: One is not.
    """
    nodes = {node.name: node for node in graph_def.node}
    depends: set[str] = set()
    for name in topological_order(nodes):
        node = nodes[name]
        shapes = [output_shape(node, k) for k in range(len(output_types(node)))]
        if not any(shape is None or None in shape for shape in shapes):
            continue
        is_source = is_kind(node.op, Kind.OTHER) or is_kind(node.op, Kind.SHAPE)
        if not is_source and not any(node_of(t) in depends for t in data_inputs(node)):
            raise CaptureError(f"TensorFlow does not infer the shape of op `{name}` ({node.op}) from lengths")
        depends.add(name)


class _Shapes:
    """Infers the shapes of a graph and of the functions that it calls, which are changed.

    Args:
        graph_def: The graph.
    """

    def __init__(self, graph_def: Any) -> None:
        self._source = graph_def
        self._functions = {function.signature.name: function for function in graph_def.library.function}
        self._bodies = FunctionBodies(graph_def)
        self._inferred: dict[tuple[str, tuple[Given, ...]], dict[str, Any]] = {}
        self._kept: dict[str, tuple[Given, ...]] = {}
        self._may_grow = may_grow(graph_def)

    def infer(self, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> None:
        """Give nodes the shapes that TensorFlow infers where some placeholders have these; functions as well."""
        self._infer(nodes, sizes)
        self._keep(nodes, sizes)

    def _keep(self, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> None:
        """Write the shapes of the bodies of all functions that nodes call into their definitions.

        Raises:
            CaptureError: One is called with several shapes.
        """
        for node in nodes.values():
            for called in called_functions(node):
                if called.name in self._functions:
                    given = self._given(called.name, self._arguments(node, nodes, sizes))
                    if self._kept.setdefault(called.name, given) != given:
                        raise CaptureError(f"function `{called.name}` is called with several shapes")
                    body = self._body(called.name, given)
                    self._write(called.name, body)
                    self._keep(body, self._by_name(called.name, given))

    def _write(self, function: str, body: Mapping[str, Any]) -> None:
        definition = self._functions[function]
        for number, argument in enumerate(definition.signature.input_arg):
            listed = definition.arg_attr[number].attr[_SHAPES].list.shape
            del listed[:]
            listed.add().CopyFrom(body[argument.name].attr["shape"].shape)
        for node in definition.node_def:
            node.attr[_SHAPES].CopyFrom(body[node.name].attr[_SHAPES])

    def _given(self, function: str, given: Sequence[Given]) -> tuple[Given, ...]:
        """The facts about a function's arguments, among all that the node which calls it takes."""
        return tuple(given[-len(self._bodies.arguments(function)) :])

    def _by_name(self, function: str, given: Sequence[Given]) -> dict[str, Given]:
        arguments = self._bodies.arguments(function)
        return {a: what for a, what in zip(arguments, given, strict=True) if what is not None}

    def _body(self, function: str, given: tuple[Given, ...]) -> dict[str, Any]:
        """The nodes of a function with the shapes for the arguments with which it is called."""
        key = function, given
        if key not in self._inferred:
            body = {}
            for name, node in self._bodies.nodes(function).items():
                body[name] = type(node)()
                body[name].CopyFrom(node)
            self._infer(body, self._by_name(function, given))
            self._inferred[key] = body
        return self._inferred[key]

    def _infer(self, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> None:
        loops = {name: _loop_shapes(node, nodes) for name, node in nodes.items() if node.op in LOOPS}
        graph_def = type(self._source)(versions=self._source.versions, library=self._source.library)
        for name, node in nodes.items():
            given = sizes.get(name)
            if given is not None and not isinstance(given, Stored | Listed):
                set_shape(node.attr["shape"].shape, given)
            made = graph_def.node.add()
            made.CopyFrom(node)
            made.attr.pop(_SHAPES, None)
            if name in loops and all(shape is None for shape in loops[name]):
                made.attr["output_shapes"].list.SetInParent()
                del made.attr["output_shapes"].list.shape[:]
        self._infer_in_rounds(graph_def, nodes, sizes)

    def _infer_in_rounds(self, graph_def: Any, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> None:
        """Have TensorFlow infer shapes, until what it can't know by itself has gone into all that depends on it."""
        lacking = [name for name, node in nodes.items() if node.op in self._functions]
        if lacking:
            raise CaptureError(f"op `{lacking[0]}` is a function, whose shapes can't be told")
        order = topological_order(nodes)
        known = {name: [output_shape(node, k) for k in range(len(output_types(node)))] for name, node in nodes.items()}
        stored = {name: what for name, what in sizes.items() if isinstance(what, Stored)}
        given = {name: _handle(f"{_GIVEN}handle_{number}", stored[name]) for number, name in enumerate(stored)}
        for name, node in nodes.items():  # variables have their shapes from tracing only
            if is_kind(node.op, Kind.VARIABLE) and known[name] and None not in (known[name][0] or (None,)):
                given[name] = _placeholder(f"{_GIVEN}{len(given)}", output_types(node)[0], known[name][0])
        for _ in range(_MOST_ROUNDS):
            names = {tensor: node.name for tensor, node in given.items()}
            inferred = inferred_shapes(graph_def, list(given.values()), names)
            for name, shapes in inferred.items():
                set_output_shapes(nodes[name], [_sharper(*both) for both in zip(shapes, known[name], strict=True)])
            vague = _vague(inferred, nodes, given)
            causes, behind = _causes(vague, nodes, order)
            told = self._told_by_lists(nodes, sizes, inferred, behind)
            vague.update((tensor, shape) for tensor, shape in told.items() if tensor not in given)
            causes = [*causes, *(tensor for tensor in told if tensor not in given and tensor not in causes)]
            if not causes:
                return
            for tensor in causes:
                name, index = split_tensor(tensor)
                known[name][index] = vague[tensor]
                dtype = output_types(nodes[name])[index]
                given[tensor] = _placeholder(f"{_GIVEN}{len(given)}", dtype, vague[tensor])

    def _told_by_lists(
        self,
        nodes: Mapping[str, Any],
        sizes: Mapping[str, Given],
        inferred: Mapping[str, Sequence[Shape]],
        behind: frozenset[str],
    ) -> dict[str, Shape]:
        """The shapes of tensors that come from lists, which tell more of them than TensorFlow infers."""
        if self._may_grow:
            return {}
        told = shapes_from_lists(nodes, behind, _elements(sizes), lambda loop: self._body_of(loop, nodes, sizes))
        found: dict[str, Shape] = {}
        for tensor, shape in told.items():
            name, index = split_tensor(tensor)
            if (sharper := _sharper(shape, inferred[name][index])) != inferred[name][index]:
                found[tensor] = sharper
        return found

    def _body_of(self, loop: Any, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> Body:
        name = loop.attr["body"].func.name
        given = self._given(name, self._arguments(loop, nodes, sizes))
        return self._body(name, given), self._bodies.results(name), _elements(self._by_name(name, given))

    def _arguments(self, node: Any, nodes: Mapping[str, Any], sizes: Mapping[str, Given]) -> list[Given]:
        """The facts about all that a node takes: shapes, what handles lead to, and what lists hold."""
        lists = Lists(nodes, _elements(sizes), lambda loop: self._body_of(loop, nodes, sizes))
        found: list[Given] = []
        for tensor in data_inputs(node):
            given = sizes.get(tensor)
            if isinstance(given, Stored):
                found.append(given)
            elif _is_list(nodes, tensor):
                found.append(Listed(lists.element(tensor)))
            else:
                found.append(tensor_shape(nodes, tensor))
        return found


def _elements(sizes: Mapping[str, Given]) -> dict[str, Shape]:
    return {name: what.element for name, what in sizes.items() if isinstance(what, Listed)}


def _is_list(nodes: Mapping[str, Any], tensor: str) -> bool:
    from tensorflow.core.framework import types_pb2

    name, index = split_tensor(tensor)
    return bool(output_types(nodes[name])[index] == types_pb2.DT_VARIANT)


def _vague(
    inferred: Mapping[str, Sequence[Shape]], nodes: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Shape]:
    """The shapes of tensors that TensorFlow infers less of than is known from tracing."""
    found: dict[str, Shape] = {}
    for name, shapes in inferred.items():
        for index, shape in enumerate(shapes):
            tensor = tensor_name(name, index)
            if tensor not in given and shape != (sharper := output_shape(nodes[name], index)):
                found[tensor] = sharper
    return found


def _causes(
    vague: Mapping[str, Shape], nodes: Mapping[str, Any], order: Sequence[str]
) -> tuple[list[str], frozenset[str]]:
    """The vague tensors that are not computed from others, and the nodes behind them, known as soon as these are."""
    behind: set[str] = set()
    by_node: dict[str, list[str]] = {}
    for tensor in vague:
        by_node.setdefault(node_of(tensor), []).append(tensor)
    causes: list[str] = []
    for name in order:
        if any(node_of(tensor) in behind for tensor in data_inputs(nodes[name])):
            behind.add(name)
        elif name in by_node:
            behind.add(name)
            causes.extend(by_node[name])
    return causes, frozenset(behind)


def _placeholder(name: str, dtype: int, shape: Shape) -> Any:
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef(name=name, op="Placeholder")
    node.attr["dtype"].type = dtype
    set_shape(node.attr["shape"].shape, shape)
    return node


def _handle(name: str, what: Stored) -> Any:
    import tensorflow as tf

    node = tf.compat.v1.NodeDef(name=name, op="VarHandleOp")
    node.attr["dtype"].type = tf.as_dtype(what.dtype).as_datatype_enum
    set_shape(node.attr["shape"].shape, what.shape)
    return node


def _loop_shapes(node: Any, nodes: Mapping[str, Any]) -> list[Shape]:
    """By value that a loop carries, the shape that its turns have in common, if it is not that of its start."""
    shapes = [shape_of(shape) for shape in node.attr["output_shapes"].list.shape]
    starts = [tensor_shape(nodes, tensor) for tensor in data_inputs(node)]
    return [None if shape == start else shape for shape, start in zip(shapes, starts, strict=False)]


def _sharper(one: Shape, other: Shape) -> Shape:
    if one is None or other is None or len(one) != len(other):
        return other if one is None else one
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))
