"""Dims of size 1 that are left out by their size: tracing settles which dims these are.

``tf.squeeze(logits)`` leaves the batch out as well where it has one row. A replica has one row where one device has
more, and must give a tensor of as many dims as that. A batch of one row has a trace of its own, in which the batch is
left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from autodist.errors import FixedRowsError
from autodist.graph._attribute_patches import Patches
from autodist.graph._graph_def import normalize, set_output_shapes, split_tensor, tensor_name, tensor_shape
from autodist.graph._inferred_shapes import inferred_shapes
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.annotations import attributed

_OPEN = "_autodist_open_rank"
"""NodeDef attribute of operators that leave out dims by their size, if a size is unknown while a step is traced."""


@contextlib.contextmanager
def squeezing_known_dims() -> Iterator[None]:
    """Let the code that is traced inside leave out the dims that are known to have size 1, by their numbers."""
    from tensorflow.python.ops import gen_array_ops

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def squeeze(input: Any, axis: Any = (), name: Any = None) -> Any:
            import tensorflow as tf

            shape = None if axis or tf.executing_eagerly() else tf.convert_to_tensor(input).shape
            if shape is None or shape.rank is None:
                return original(input, axis, name)
            found = [dim for dim, size in enumerate(shape._dims) if size == 1]
            with attributed(_OPEN, b"1") if None in shape._dims else contextlib.nullcontext():
                return original(input, found, name) if found else tf.identity(input, name)

        return squeeze

    with Patches() as patches:
        patches.replace(gen_array_ops, "squeeze", wrap)
        yield


def settle_squeezed_dims(flat: Any) -> None:
    """Do the same in a flat graph, to operators of functions that were traced before, or for any number of rows."""
    nodes = {node.name: node for node in flat.node}
    left = [node for node in flat.node if _OPEN in node.attr or _leaves_out_by_size(node)]
    inferred: Mapping[str, tuple[int | None, ...]] = {}
    while left:
        listed = [tensor_shape(nodes, node.input[0]) for node in left]
        shapes = [inferred.get(normalize(n.input[0])) if of is None else of for n, of in zip(left, listed, strict=True)]
        settled = [(node, shape) for node, shape in zip(left, shapes, strict=True) if shape is not None]
        for node, shape in settled:
            _leave_out(node, shape)
        left = [node for node, shape in zip(left, shapes, strict=True) if shape is None]
        if left:
            known, inferred = inferred, _first_inputs(flat, left)
            if not settled and inferred == known:
                break
    for node in left:  # how many dims it has is not known: a replica with one row may give another number than others
        node.attr[_OPEN].s = b"1"


def _leaves_out_by_size(node: Any) -> bool:
    return node.op == "Squeeze" and not node.attr["squeeze_dims"].list.i


def _first_inputs(flat: Any, nodes: Sequence[Any]) -> dict[str, tuple[int | None, ...]]:
    """The shapes of the first inputs of nodes, by tensor, as far as TensorFlow finds them: functions list none."""
    shapes = inferred_shapes(flat)
    places = [split_tensor(node.input[0]) for node in nodes]
    found = {tensor_name(name, index): shapes[name][index] for name, index in places}
    return {tensor: shape for tensor, shape in found.items() if shape is not None}


def _leave_out(node: Any, shape: Sequence[int | None]) -> None:
    """Have a node leave out the dims that are known to have size 1."""
    found = [dim for dim, size in enumerate(shape) if size == 1]
    node.op = "Squeeze" if found else "Identity"
    node.attr.pop("squeeze_dims", None)
    if found:
        node.attr["squeeze_dims"].list.i.extend(found)
    if None in shape:
        node.attr[_OPEN].s = b"1"
    set_output_shapes(node, [[size for size in shape if size != 1]])


def refuse_left_out_rows(graph: TrainingGraph, line_of: Callable[[str], str]) -> None:
    """Refuse a batch of one row for a step that leaves out dims by their size, if it was traced for any number of rows.

    Args:
        graph: The step.
        line_of: The user's line of a node.

    Raises:
        FixedRowsError: It does so.
    """
    if graph.fixed_rows is not None:
        return
    functions = (node for function in graph.graph_def.library.function for node in function.node_def)
    for node in (*graph.graph_def.node, *functions):
        if _OPEN in node.attr:
            raise FixedRowsError(
                f"op `{node.name}` ({node.op}) at {line_of(node.name)} leaves out all dims of size 1, and so the batch "
                "too where it has one row",
                hint="say which dims: `tf.squeeze(x, axis=-1)`",
            )
