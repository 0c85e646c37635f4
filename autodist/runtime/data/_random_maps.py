"""Which parts of a dataset's elements each worker draws for itself.

All workers see the same elements in the same order. Random operations in a `map` with `num_parallel_calls` draw in the
order in which its calls happen to run, which no seed changes. So the pictures of an augmented batch differ between the
workers, and their labels do not. That is as it should be: each picture is augmented once, by the worker that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodist.graph.operators import Kind, is_kind

_MAPS = ("_MapDataset", "_ParallelMapDataset")


def drawn_parts(dataset: Any) -> tuple[bool, ...]:
    """Per tensor of a dataset's elements, whether workers have different values of it, though the same elements."""
    import tensorflow as tf

    size = len(tf.nest.flatten(dataset.element_spec))
    inputs = [drawn_parts(source) for source in dataset._inputs()]
    kind = type(dataset).__name__
    if kind in _MAPS:
        return _mapped(dataset, inputs[0], size)
    if kind == "_ZipDataset":
        return tuple(is_drawn for parts in inputs for is_drawn in parts)
    functions = [wrapped.function.graph.as_graph_def() for wrapped in dataset._functions()]
    is_parallel = "Parallel" in kind
    if any(_has_draws(function, is_parallel) for function in functions) or (functions and any(map(any, inputs))):
        return (True,) * size
    if all(len(parts) == size for parts in inputs):
        return tuple(any(parts) for parts in zip(*inputs, strict=True)) or (False,) * size
    return (any(map(any, inputs)),) * size


def _mapped(dataset: Any, given: Sequence[bool], size: int) -> tuple[bool, ...]:
    """The parts of what a function makes that depend on drawn ones, or on what it draws."""
    function = dataset._map_func.function.graph
    graph_def = function.as_graph_def()
    is_parallel = type(dataset).__name__ == "_ParallelMapDataset"
    if len(function.outputs) != size:
        return (any(given) or _has_draws(graph_def, is_parallel),) * size
    drawing = _drawing_functions(graph_def, is_parallel)
    # If tensors have several components, it is not known which is which.
    drawn = {tensor.op.name for tensor, is_drawn in zip(function.inputs, given, strict=False) if is_drawn}
    found = -1
    while found < len(drawn):
        found = len(drawn)
        for node in graph_def.node:
            inputs = (source.partition(":")[0] for source in node.input if not source.startswith("^"))
            if _draws(node, drawing, is_parallel) or not drawn.isdisjoint(inputs):
                drawn.add(node.name)
    return tuple(tensor.op.name in drawn for tensor in function.outputs)


def _has_draws(graph_def: Any, is_parallel: bool) -> bool:
    drawing = _drawing_functions(graph_def, is_parallel)
    return any(_draws(node, drawing, is_parallel) for node in graph_def.node)


def _drawing_functions(graph_def: Any, is_parallel: bool) -> set[str]:
    """Functions that draw, or call one that does."""
    drawing: set[str] = set()
    found = -1
    while found < len(drawing):
        found = len(drawing)
        for function in graph_def.library.function:
            if any(_draws(node, drawing, is_parallel) for node in function.node_def):
                drawing.add(function.signature.name)
    return drawing


def _draws(node: Any, drawing: set[str], is_parallel: bool) -> bool:
    """Whether a node's values differ between workers that give it the same inputs."""
    if any(attr.func.name in drawing for attr in node.attr.values()):
        return True
    if is_kind(node.op, Kind.RANDOM) and "seed" in node.attr:
        return is_parallel or not (node.attr["seed"].i or node.attr["seed2"].i)
    # Random generators have their state in variables.
    is_generator = node.op.startswith("Rng") or (node.op.startswith("Stateful") and not node.op.endswith("Call"))
    return is_parallel and (is_generator or node.op.startswith("Assign"))
