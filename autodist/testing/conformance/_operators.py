"""Whether the description of an operator is what its kernel does: tiles together give the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import ConformanceFailed
from autodist.graph.operators import Access, Change, Cut, Expression, Lengths, Operator, Reducer, Signature, Tile, span
from autodist.graph.operators import cuts as cuts_of
from autodist.graph.operators import tiles as tiles_of

_COMBINE: dict[Reducer, Callable[..., Any]] = {
    Reducer.SUM: np.add,
    Reducer.PROD: np.multiply,
    Reducer.MAX: np.maximum,
    Reducer.MIN: np.minimum,
    Reducer.ALL: np.logical_and,
    Reducer.ANY: np.logical_or,
    Reducer.NORM: np.hypot,
}


@dataclass(frozen=True)
class CheckedCut:
    """A cut that has given the whole result.

    Attributes:
        example: The number of the example.
        cut: The index, and how results were put together.
        bounds: Where each tile began, and where the last ended.
    """

    example: int
    cut: Cut
    bounds: tuple[int, ...]


def check_operator(operator: Operator, examples: Sequence[Callable[[], Any]]) -> tuple[CheckedCut, ...]:
    """Run an operator whole and cut along every index that its description permits, and compare.

    Each cut is tried in two tiles of unlike size, and in one tile per value.

    Args:
        operator: The description.
        examples: Functions that call the operator once, on constants.

    Returns:
        What has been checked; what an index expression does not permit is not in it.

    Raises:
        ConformanceFailed: Lists every cut that gives something else, and every example without expression.

    Example:
        >>> import tensorflow as tf
        >>> from autodist.graph.operators import operator
        >>> found = check_operator(operator("Relu"), [lambda: tf.raw_ops.Relu(features=[[1.0, -1.0, 2.0]])])
        >>> [(checked.cut.index, checked.bounds) for checked in found]
        [('d1', (0, 1, 3)), ('d1', (0, 1, 2, 3))]
    """
    failures: list[str] = []
    checked: list[CheckedCut] = []
    for number, example in enumerate(examples):
        try:
            checked += _checked(operator, number, example, failures)
        except Exception as error:  # whatever another package's description raises
            failures.append(f"example {number}: {type(error).__name__}: {error}")
    if failures:
        lines = "\n".join(f"  - {failure}" for failure in failures)
        raise ConformanceFailed(f"the description of {operator.name} is not what its kernel does:\n{lines}")
    return tuple(checked)


def _checked(operator: Operator, number: int, example: Callable[[], Any], failures: list[str]) -> Iterator[CheckedCut]:
    call = _Call.traced(operator.name, example)
    expression = operator.describe(call.signature) if operator.describe is not None else None
    if expression is None:
        failures.append(f"example {number}: there is no index expression")
        return
    problem = _contradiction(expression, call)
    if problem is not None:
        failures.append(f"example {number}: {problem}")
        return
    for cut in cuts_of(expression):
        size = expression.sizes[cut.index] or 0
        for bounds in sorted({(0, max(1, size // 3), size), tuple(range(size + 1))}):
            found = _difference(operator, call, expression, cut, bounds)
            if found is None:
                yield CheckedCut(number, cut, bounds)
            else:
                failures.append(f"example {number}, `{cut.index}` cut at {bounds}: {found}")


@dataclass(frozen=True)
class _Call:
    """An operator that has run."""

    node: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    signature: Signature

    @classmethod
    def traced(cls, op: str, example: Callable[[], Any]) -> _Call:
        import tensorflow as tf

        with tf.Graph().as_default() as graph:
            example()
            found = next(operation for operation in graph.get_operations() if operation.type == op)
            with _session(graph) as session:
                taken = [t for t in found.inputs if t.dtype != tf.resource]
                values = dict(zip([t.ref() for t in taken], session.run(taken), strict=True)) if taken else {}
                outputs = tuple(session.run(list(found.outputs)))
        inputs = tuple(np.asarray(values[t.ref()]) for t in found.inputs)
        node = found.node_def
        signature = Signature(
            op,
            tuple(value.shape for value in inputs),
            tuple(np.shape(value) for value in outputs),
            node.attr,
            lambda position: inputs[position],
        )
        return cls(node, inputs, outputs, signature)


def _contradiction(expression: Expression, call: _Call) -> str | None:
    """The part of an expression that does not fit the tensors at hand."""
    if len(expression.inputs) != len(call.inputs) or len(expression.outputs) != len(call.outputs):
        return f"it has {len(expression.inputs)} inputs and {len(expression.outputs)} outputs, not those of the node"
    ranges = {name: (0, size or 0) for name, size in expression.sizes.items()}
    for k, (access, value) in enumerate(zip(expression.outputs, call.outputs, strict=True)):
        shape = np.shape(value)
        if access is None:
            continue
        if len(access.dims) != len(shape):
            return f"output {k} has {len(shape)} dims, not {len(access.dims)}"
        for dim, place in enumerate(access.dims):
            if place is not None and span(place, ranges) != (0, shape[dim]):
                return f"dim {dim} of output {k} is of size {shape[dim]}, not {span(place, ranges)}"
    for k, (operand, value) in enumerate(zip(expression.inputs, call.inputs, strict=True)):
        if isinstance(operand, Access) and len(operand.dims) != value.ndim:
            return f"input {k} has {value.ndim} dims, not {len(operand.dims)}"
        if isinstance(operand, Lengths) and tuple(value.reshape(-1)) != _lengths(operand, ranges):
            return f"input {k} is {value.tolist()}, not {_lengths(operand, ranges)}"
    return None


def _lengths(operand: Lengths, ranges: Any) -> tuple[int, ...]:
    return tuple(span(place, ranges)[1] - span(place, ranges)[0] for place in operand.dims)


def _difference(
    operator: Operator, call: _Call, expression: Expression, cut: Cut, bounds: tuple[int, ...]
) -> str | None:
    shapes = tuple(value.shape for value in call.inputs)
    parts = tiles_of(expression, shapes, cut.index, bounds)
    results = []
    for tile in parts:
        try:
            results.append(_run(operator, call, expression, tile))
        except Exception as error:  # whatever the kernel says
            return f"a tile can't be computed: {type(error).__name__}: {str(error).splitlines()[0]}"
    for k, whole in enumerate(call.outputs):
        if expression.outputs[k] is None:
            continue
        found = _joined([result[k] for result in results], parts, k, np.asarray(whole), cut, bounds)
        if isinstance(found, str):
            return found
        if not _close(found, np.asarray(whole)):
            return f"output {k} differs from that of the whole"
    return None


def _run(operator: Operator, call: _Call, expression: Expression, tile: Tile) -> list[Any]:
    change = Change() if operator.adapt is None else operator.adapt(call.signature, expression, tile.ranges)
    inputs = [
        _given(k, value, operand, part, tile, change)
        for k, (value, operand, part) in enumerate(zip(call.inputs, expression.inputs, tile.inputs, strict=True))
    ]
    results = _computed(call.node, inputs, change)
    if change.cropped:
        results[0] = results[0][tuple(slice(a, np.shape(results[0])[d] - b) for d, (a, b) in enumerate(change.cropped))]
    return results


def _given(k: int, value: Any, operand: Any, part: Any, tile: Tile, change: Change) -> Any:
    if k in change.constants:
        return np.asarray(change.constants[k], value.dtype)
    if isinstance(operand, Lengths):
        lengths = np.add(_lengths(operand, tile.ranges), [sum(pair) for pair in change.cropped] or 0)
        return np.asarray(lengths, value.dtype).reshape(value.shape)
    found = value if part is None else _part(value, operand, part)
    return np.pad(found, change.padded[k]) if k in change.padded else found


def _part(value: Any, operand: Any, part: Any) -> Any:
    for dim, (place, bounds) in enumerate(zip(operand.dims, part, strict=True)):
        if bounds is not None:
            value = value.take(range(*bounds), dim, mode="wrap" if place.around else "raise")
    return value


def _slices(part: Any) -> tuple[slice, ...]:
    return tuple(slice(None) if places is None else slice(*places) for places in part)


def _computed(node: Any, inputs: list[Any], change: Change) -> list[Any]:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tensors = [tf.constant(value) for value in inputs]
        given = type(node)()
        given.CopyFrom(node)
        del given.input[:]
        given.input.extend(tensor.name.split(":")[0] for tensor in tensors)
        given.attr.pop("_output_shapes", None)
        for name, value in change.attributes.items():
            _set(given, name, value)
        graph_def = tf.compat.v1.GraphDef()
        graph_def.node.append(given)
        names = {tensor.name.split(":")[0]: tensor for tensor in tensors}
        for name, tensor in names.items():
            graph_def.node.add(name=name, op="Placeholder").attr["dtype"].type = tensor.dtype.as_datatype_enum
        tf.import_graph_def(graph_def, input_map={f"{name}:0": tensor for name, tensor in names.items()}, name="tile")
        outputs = graph.get_operation_by_name(f"tile/{node.name}").outputs
        with _session(graph) as session:
            return list(session.run(list(outputs)))


def _session(graph: Any) -> Any:
    """A session in which the kernels themselves run, without TensorFlow's folding of constants."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return tf.compat.v1.Session(graph=graph, config=config)


def _set(node: Any, name: str, value: Any) -> None:
    if value is None:
        for dim in node.attr[name].shape.dim:
            dim.size = -1
    elif isinstance(value, str):
        node.attr[name].s = value.encode()
    elif isinstance(value, tuple):
        del node.attr[name].list.i[:]
        node.attr[name].list.i.extend(value)
    else:
        node.attr[name].i = value


def _joined(
    results: list[Any], parts: Sequence[Tile], k: int, whole: Any, cut: Cut, bounds: tuple[int, ...]
) -> Any | str:
    """The results of all tiles as one."""
    if cut.reducer is None:
        found = np.zeros_like(whole)
        for result, tile in zip(results, parts, strict=True):
            place = _slices(tile.outputs[k])
            if found[place].shape != np.shape(result):
                return f"output {k} of a tile has the shape {np.shape(result)}, not {found[place].shape}"
            found[place] = result
        return found
    if cut.reducer is Reducer.MEAN:
        lengths = np.diff(bounds) / (bounds[-1] - bounds[0])
        return sum(result * length for result, length in zip(results, lengths, strict=True))
    found = results[0]
    for result in results[1:]:
        found = _COMBINE[cut.reducer](found, result)
    return found


def _close(found: Any, whole: Any) -> bool:
    if whole.dtype.kind in "fc":
        return bool(np.allclose(found, whole, rtol=1e-4, atol=1e-5, equal_nan=True))
    return bool(np.array_equal(found, whole))
