"""A step in which some operators are replaced by several others, which can be cut where they can't."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from autodist.graph._editor import GraphEditor
from autodist.graph._graph_def import (
    constant_value,
    data_inputs,
    node_of,
    normalize,
    output_shape,
    split_tensor,
    tensor_dtype,
)
from autodist.graph._nodes import NodeList
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.operators import Making, meaning


def can_be_made_of_others(graph: TrainingGraph) -> tuple[str, ...]:
    """The nodes that :func:`made_of_others` knows how to make."""
    nodes, returned = graph.analysis.nodes, {normalize(output.tensor) for output in graph.outputs}
    found = (name for name, node in nodes.items() if meaning(node.op).made_of is not None)
    return tuple(name for name in found if f"{name}:1" not in returned and _made(nodes, nodes[name]) is not None)


def made_of_others(graph: TrainingGraph, names: Collection[str]) -> TrainingGraph:
    """The step with these nodes replaced by others; what they give has the names that it had.

    Args:
        graph: The step.
        names: Some of :func:`can_be_made_of_others`.
    """
    if not names:
        return graph
    nodes = graph.analysis.nodes
    made = {name: found for name in names if (found := _made(nodes, nodes[name])) is not None}
    instead = {f"{name}:{k}": tensor for name, (_, found) in made.items() for k, tensor in enumerate(found) if k}
    lines = {node.name: graph.lines[name] for name, (new, _) in made.items() if name in graph.lines for node in new}
    return _changed(graph, {name: new for name, (new, _) in made.items()}, instead, lines)


def with_reads(graph: TrainingGraph, handles: Collection[str]) -> TrainingGraph:
    """The step in which rows of some variables are looked up in what is read of them, not by their handles."""
    analysis = graph.analysis
    found = [name for name, node in analysis.nodes.items() if _looks_up(node, analysis.handle_of, handles)]
    if not found:
        return graph
    shapes = {v.handle: v.shape for v in graph.variables}
    new = {name: list(_read_and_looked_up(analysis, analysis.nodes[name], shapes)) for name in found}
    return _changed(graph, new, {}, {})


def _looks_up(node: Any, handle_of: Mapping[str, str], handles: Collection[str]) -> bool:
    lookup = meaning(node.op).lookup
    is_plain = lookup is not None and lookup.by_handle and not lookup.by_coordinates
    return is_plain and not node.attr["batch_dims"].i and handle_of.get(node_of(node.input[0])) in handles


def _read_and_looked_up(analysis: Any, node: Any, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Any]:
    handle, numbers = data_inputs(node)
    waits = [tensor for tensor in node.input if tensor.startswith("^")]
    dtype, out = tensor_dtype(analysis.nodes, node.name), NodeList(device=node.device)
    shape = shapes[analysis.handle_of[node_of(handle)]]
    table = out.add("ReadVariableOp", f"{node.name}/table", [handle, *waits], dtype=dtype, _output_shapes=[shape])
    axis = out.constant(f"{node.name}/axis", 0, "int32")
    kinds: dict[str, Any] = {"Tparams": dtype, "Tindices": tensor_dtype(analysis.nodes, numbers), "Taxis": "int32"}
    made = [output_shape(node)]
    out.add("GatherV2", node.name, [table, numbers, axis], _output_shapes=made, batch_dims=0, **kinds)
    yield from out.nodes


def _made(nodes: dict[str, Any], node: Any) -> tuple[list[Any], tuple[str, ...]] | None:
    """The nodes that make another one, and their tensors that are its results."""
    made_of, inputs, out = meaning(node.op).made_of, tuple(data_inputs(node)), NodeList()
    places = [split_tensor(tensor) for tensor in inputs]
    shapes = tuple(output_shape(nodes[name], index) for name, index in places)
    if made_of is None or any(shape is None for shape in shapes):
        return None
    known = tuple(shape for shape in shapes if shape is not None)
    dtypes = tuple(tensor_dtype(nodes, tensor) for tensor in inputs)

    def constant(tensor: str) -> Any:
        found = nodes[node_of(tensor)]
        return constant_value(found) if found.op == "Const" else None

    results = made_of(Making(out, node, inputs, known, dtypes, constant))
    if results is None:
        return None
    out.nodes[0].input.extend(tensor for tensor in node.input if tensor.startswith("^"))
    return out.nodes, results


def _changed(
    graph: TrainingGraph, new: Mapping[str, list[Any]], instead: Mapping[str, str], lines: Mapping[str, str]
) -> TrainingGraph:
    """The step with other nodes instead of some, and other tensors instead of theirs."""
    editor = GraphEditor.like(graph.graph_def)
    for name, node in graph.analysis.nodes.items():
        editor.extend(new.get(name, (node,)))
    editor.redirect(instead, with_added=True)
    return replace(graph, graph_def=editor.finish(), lines={**graph.lines, **lines})
