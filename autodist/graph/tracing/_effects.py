"""Effects of a step: what it does besides computing its results, and the user's lines of what is told about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodist.graph._graph_def import data_inputs, is_stateful, node_of
from autodist.graph._variables import Output
from autodist.graph.analysis import BatchScaling, StepAnalysis, reduction_of_met
from autodist.graph.operators import meaning
from autodist.graph.tracing._source_lines import SourceLines


def lines_of_interest(
    analysis: StepAnalysis, effects: Sequence[str], outputs: Sequence[Output], lines: SourceLines
) -> dict[str, str]:
    """The user's lines of what kernels may have to name: effects, outputs, losses, and where examples meet."""
    dependence = analysis.dependence
    tensors = [*(o.tensor for o in outputs), *(t for targets in analysis.targets.values() for t in targets)]
    tensors += [tensor for effect in effects for tensor in data_inputs(analysis.nodes[effect])]
    tensors += [analysis.nodes[name].input[1] for name in analysis.by_tensors]
    varying = [node_of(t) for t in tensors if analysis.scaling(t) is not BatchScaling.CONSTANT]
    sources = [node_of(t) for name in varying for t in data_inputs(analysis.nodes[name])]
    meetings = dependence.meetings(tensors)
    sources += [node_of(t) for name in meetings for t in data_inputs(analysis.nodes[name])]
    reduced = [name for name in analysis.nodes if reduction_of_met(dependence, name) is not None]
    names = [*effects, *varying, *sources, *reduced, *meetings, *analysis.synchronized, *analysis.bent]
    return {name: lines.of(name) for name in dict.fromkeys(names)}


def drop_output_controls(analysis: StepAnalysis, outputs: Sequence[Output]) -> None:
    """Tracing makes every output wait for all effects; we run the effects ourselves."""
    for output in outputs:
        node = analysis.nodes[node_of(output.tensor)]
        if node.op == "Identity":
            del node.input[1:]
            analysis.index.note(node)


def effects(analysis: StepAnalysis, graph: Any, outputs: Sequence[Output]) -> tuple[str, ...]:
    """Nodes that do something besides computing: assignments, prints, assertions, Python calls."""
    roots = [operation.name for operation in graph.control_outputs] + [node_of(o.tensor) for o in outputs]
    needed = analysis.index.ancestors(roots)
    acting = _acting_functions(analysis)
    return tuple(
        n for n in analysis.order if n in needed and (n in analysis.writes or _acts(analysis.nodes[n], acting))
    )


def _acting_functions(analysis: StepAnalysis) -> set[str]:
    """Functions whose own nodes assert, print or call Python."""
    library = analysis.graph_def.library.function
    return {f.signature.name for f in library if any(meaning(node.op).is_acting for node in f.node_def)}


def _acts(node: Any, acting: set[str]) -> bool:
    if meaning(node.op).is_acting:
        return True
    if acting and acting & {attr.func.name for attr in node.attr.values() if attr.func.name}:
        return True
    if not is_stateful(node.op) or node.op == "Placeholder":
        return False
    return "_output_shapes" not in node.attr or not node.attr["_output_shapes"].list.shape
