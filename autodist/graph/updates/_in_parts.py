"""A step whose variables are in parts: which of its variables belong together then, and which slots to which variable.

The norm of a gradient is one number. Each worker can compute its share of it from its own part of the gradient; once
the shares are put together, all workers have the number. So it keeps no variables together, as it does at a server. The
same holds of sums and means of rows or columns, such as those of Adafactor: they are small next to the variable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph._graph_def import constant_value, data_inputs, node_of, output_shape, tensor_shape
from autodist.graph._variables import Variable
from autodist.graph.analysis import BareVariable, StepAnalysis, assign_roles
from autodist.graph.operators import Kind, Reducer, is_kind, meaning
from autodist.graph.updates._flat_branches import with_flat_branches
from autodist.graph.updates._followers import with_followers

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph

_NUMBERS = "reductions"
_ROLES = "roles apart"
_FLAT = "flat branches"


def numbers_of_all(analysis: StepAnalysis) -> frozenset[str]:
    """The nodes that put all elements of a tensor together into one, or add up those along some of its dims."""
    found: frozenset[str] | None = analysis.derived.get(_NUMBERS)
    if found is None:
        found = frozenset(name for name, node in analysis.nodes.items() if _gives_numbers(node, analysis.nodes))
        analysis.derived[_NUMBERS] = found
    return found


def _gives_numbers(node: Any, nodes: dict[str, Any]) -> bool:
    reducer = meaning(node.op).reducer if is_kind(node.op, Kind.REDUCTION) else None
    if reducer is None:
        return False
    given, made = tensor_shape(nodes, data_inputs(node)[0]), output_shape(node)
    if given is None or made is None or None in made:
        return False
    count = prod(size or 0 for size in made)
    if count == 1:  # None: of a sparse gradient it is not known how many rows there are
        return None in given or prod(size or 0 for size in given) > 1
    axes = data_inputs(node)[1:]
    if None in given or reducer not in (Reducer.SUM, Reducer.MEAN) or not axes:
        return False
    return constant_value(nodes[node_of(axes[0])]) is not None and count < prod(size or 0 for size in given)


def in_parts(graph: TrainingGraph, tiled: Collection[str] | None = None) -> TrainingGraph:
    """The step as it is for variables that are tiled: what couples variables does so by more than single numbers.

    Branches that change such variables are plain nodes in it.

    Args:
        graph: The step, with its GraphDef.
        tiled: Variables that are tiled: only what is coupled with one of these changes. None for all.
    """
    names = [v.name for v in graph.trainable] if tiled is None else tiled
    changed = {other for name in names for other in graph.variable(name).coupled}
    handles = {v.handle for v in graph.variables if not changed.isdisjoint(_unit(v))}
    flat = _flat(graph, frozenset(handles))
    apart, shapes = flat.variables, {variable.name: variable.shape for variable in graph.variables}
    have_own_shapes = any(v.shape != shapes[owner] for v in graph.variables for owner in v.owners)
    if flat is not graph or have_own_shapes or any(len(variable.coupled) > 1 for variable in graph.variables):
        apart = _apart(flat)
    kept = tuple(new if old.handle in handles else old for old, new in zip(graph.variables, apart, strict=True))
    returned = {*flat.effects, *(node_of(output.tensor) for output in flat.outputs)} - flat.analysis.writes.keys()
    variables = with_followers(flat.analysis, kept, changed, returned, numbers_of_all(flat.analysis))
    if flat is graph and variables == graph.variables:
        return graph
    found = replace(flat, variables=variables)
    found.__dict__["analysis"] = flat.analysis
    return found


def _flat(graph: TrainingGraph, handles: frozenset[str]) -> TrainingGraph:
    """See :func:`with_flat_branches`; what was found for the same nodes is kept."""
    kept = graph.analysis.derived
    if (_FLAT, handles) not in kept:
        made = with_flat_branches(graph, handles)
        kept[_FLAT, handles] = None if made is graph else made
    found: TrainingGraph | None = kept[_FLAT, handles]
    if found is None:
        return graph
    flat = replace(found, inputs=graph.inputs, batch_size=graph.batch_size)
    flat.__dict__["analysis"] = found.analysis
    return flat


def _unit(variable: Variable) -> tuple[str, ...]:
    return variable.coupled or variable.owners


def _apart(graph: TrainingGraph) -> tuple[Variable, ...]:
    analysis = graph.analysis
    found: tuple[Variable, ...] | None = analysis.derived.get(_ROLES)
    if found is None:
        bare = [BareVariable(v.name, v.handle, v.shape, v.dtype, v.content) for v in graph.variables]
        marks = {mark: v.handle for v in graph.variables for gradient in v.gradients for mark in gradient.tensors}
        handles = {mark.gradient: marks[name] for name, mark in analysis.marks.items() if name in marks}
        outputs = [output.tensor for output in graph.outputs]
        found = assign_roles(analysis, bare, handles, outputs, numbers_of_all(analysis))
        analysis.derived[_ROLES] = found
    pairs = zip(graph.variables, found, strict=True)
    return tuple(replace(v, role=new.role, owners=new.owners, coupled=new.coupled) for v, new in pairs)
