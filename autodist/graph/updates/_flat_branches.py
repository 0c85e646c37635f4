"""Branches that change variables, as plain nodes: both are computed, and what is not taken changes nothing.

An optimizer that accumulates gradients, or leaves out a step whose gradients are not finite, changes all variables in
one branch. As plain nodes, each write has its own inputs only, so that the parts of a variable can be told apart::

    If(taken): AssignSubVariableOp(w, rate * g)    becomes    AssignSubVariableOp(w, SelectV2(taken, rate * g, 0))
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autodist.graph._constants import static_value
from autodist.graph._editor import GraphEditor
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    data_inputs,
    is_stateful,
    node_of,
    normalize,
    output_types,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph._inline import inline_calls
from autodist.graph._nodes import NodeList
from autodist.graph.analysis import BatchScaling, StepAnalysis
from autodist.graph.annotations import MARK
from autodist.graph.operators import BRANCHES, Handle, Kind, Unchanged, is_kind, meaning

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph

_COMPUTING = (
    Kind.ELEMENTWISE, Kind.REDUCTION, Kind.PRODUCT, Kind.MOVING, Kind.SCATTER, Kind.SHAPE, Kind.SOURCE,
)  # fmt: skip
_THEN, _ELSE = "then", "else"
_BOOL = 10  # TensorFlow's number of this type


def with_flat_branches(graph: TrainingGraph, handles: frozenset[str]) -> TrainingGraph:
    """The step without branches that change variables and take some of these: nodes replace them, if nodes can.

    Args:
        graph: The step, with its GraphDef.
        handles: The handles of these variables.
    """
    taken: dict[str, str] = {}
    # Those inside of a branch that became nodes must become nodes as well.
    while found := [name for name in _taking(graph, handles, taken) if name in taken or _can_be_nodes(graph, name)]:
        graph = _Flattening(graph, found, taken).build()
    return graph


def _taking(graph: TrainingGraph, handles: frozenset[str], taken: Collection[str]) -> Iterator[str]:
    """The branches that change variables and take any of these, and those inside of others that did.

    Some only read these, as one by which a network's values overwrite those of its target network every ten steps.
    """
    for name in graph.analysis.writes:
        is_concerned = name in taken or not handles.isdisjoint(graph.analysis.touched_by(name))
        if graph.analysis.nodes[name].op in BRANCHES and is_concerned:
            yield name


def _can_be_nodes(graph: TrainingGraph, name: str) -> bool:
    """Whether both branches can be computed: they take no tensors of examples, cannot fail, and do nothing else.

    They may take single numbers, such as the loss.
    """
    analysis = graph.analysis
    node = analysis.nodes[name]
    given = [t for t in data_inputs(node)[1:] if node_of(t) not in analysis.handle_of]
    tensors = [tensor for tensor in given if tensor_shape(analysis.nodes, tensor) != ()]
    is_of_examples = any(analysis.scaling(tensor) is not BatchScaling.CONSTANT for tensor in tensors)
    return not is_of_examples and _has_plain_branches(analysis.bodies, analysis.nodes, node)


def _has_plain_branches(bodies: FunctionBodies, beside: dict[str, Any], node: Any) -> bool:
    is_choice = "then_branch" in node.attr and "else_branch" in node.attr
    if not is_choice or node.attr["Tcond"].type != _BOOL or tensor_shape(beside, data_inputs(node)[0]) != ():
        return False
    functions = (bodies.nodes(node.attr[f"{which}_branch"].func.name) for which in (_THEN, _ELSE))
    return all(_is_plain(bodies, nodes, inner) for nodes in functions for inner in nodes.values())


def _is_plain(bodies: FunctionBodies, nodes: dict[str, Any], node: Any) -> bool:
    known = meaning(node.op)
    if MARK in node.attr:
        return False
    if node.op in BRANCHES:
        return _has_plain_branches(bodies, nodes, node)
    if known.unchanged is not None or (known.handle is Handle.READS and is_kind(node.op, Kind.VARIABLE)):
        return True
    return not is_stateful(node.op) and is_kind(node.op, *_COMPUTING) and not _can_fail(nodes, node)


def _can_fail(nodes: dict[str, Any], node: Any) -> bool:
    """Whether a node fails for some values: a check, or whole numbers that are divided by what may be zero."""
    if not meaning(node.op).can_fail:
        return False
    if len(data_inputs(node)) == 1:
        return True
    import tensorflow as tf

    if tf.as_dtype(output_types(node)[0]).is_floating:
        return False
    divisor = static_value(nodes, data_inputs(node)[1])
    return divisor is None or not (divisor > 0).all()


class _Flattening:
    """Replaces branches by nodes; what these change is changed in the same order.

    Args:
        graph: The step.
        names: The branches.
        taken: By branch that is inside of another one, a tensor that says whether that one is taken; what is found is
            added.
    """

    def __init__(self, graph: TrainingGraph, names: Sequence[str], taken: dict[str, str]) -> None:
        self._graph = graph
        self._nodes = graph.analysis.nodes
        self._names = names
        self._taken = taken
        self._instead: dict[str, str] = {}
        self._guards: dict[tuple[str, str], str] = {}

    def build(self) -> TrainingGraph:
        """The step with nodes instead of the branches."""
        called, _ = inline_calls(self._with_calls())
        handles, split = [v.handle for v in self._graph.variables], self._graph.analysis.split
        analysis = StepAnalysis(called, handles, split)
        self._note_inner(analysis)
        editor = GraphEditor(called)
        for name in self._names:
            self._order(editor, analysis, name)
        for key, guard in self._guards.items():
            for write in self._inside(analysis, *key):
                if meaning(analysis.nodes[write].op).unchanged is not None:
                    self._guard(editor, analysis, write, guard)
        effects = [new for effect in self._graph.effects for new in self._effects(analysis, effect)]
        outputs = [replace(o, tensor=self._instead.get(normalize(o.tensor), o.tensor)) for o in self._graph.outputs]
        return replace(self._graph, graph_def=editor.finish(), effects=tuple(effects), outputs=tuple(outputs))

    # Both branches, as calls -----------------------------------------------------------------------------------------

    def _with_calls(self) -> Any:
        out = GraphEditor.like(self._graph.graph_def)
        for name in self._names:
            count = len(output_types(self._nodes[name]))
            self._instead.update((normalize(f"{name}:{k}"), f"{name}/result_{k}") for k in range(count))
        for name, node in self._nodes.items():
            if name in self._names:
                self._add_calls(out, node)
                continue
            inputs = [t if t.startswith("^") else self._instead.get(normalize(t), t) for t in node.input]
            out.clone(node, name, inputs, device=node.device, without=())
        return out.finish()

    def _add_calls(self, out: NodeList, node: Any) -> None:
        """Add both branches, whether each is taken, and the results of the one that is."""
        condition, *given = [self._instead.get(normalize(t), t) for t in data_inputs(node)]
        opposite = out.add("LogicalNot", f"{node.name}/not", [condition], _output_shapes=[()])
        for which, one in ((_THEN, condition), (_ELSE, opposite)):
            function, kinds = node.attr[f"{which}_branch"].func.name, node.attr["Tin"].list.type
            call = f"{node.name}/{which}"
            out.add("StatefulPartitionedCall", call, given, Tin=list(kinds), Tout=output_types(node))
            out.nodes[-1].attr["f"].func.name = function
            outer = self._taken.get(node.name)
            guard = one if outer is None else f"{call}_is_taken"
            if outer is not None:
                out.add("LogicalAnd", guard, [outer, one], _output_shapes=[()])
            self._guards[node.name, which] = guard
        for k, kind in enumerate(output_types(node)):
            both = [f"{node.name}/{which}:{k}" for which in (_THEN, _ELSE)]
            out.add("SelectV2", f"{node.name}/result_{k}", [condition, *both], T=kind)
            out.nodes[-1].attr["_output_shapes"].list.shape.add().CopyFrom(node.attr["_output_shapes"].list.shape[k])
        out.add("NoOp", node.name, [f"^{node.name}/{which}" for which in (_THEN, _ELSE)])

    def _inside(self, analysis: StepAnalysis, name: str, which: str) -> list[str]:
        """The nodes of a branch that read or change variables."""
        begin = f"{name}/{which}/"
        return [found for found in analysis.nodes if found.startswith(begin) and analysis.touched_by(found)]

    def _note_inner(self, analysis: StepAnalysis) -> None:
        for key, guard in self._guards.items():
            for name in self._inside(analysis, *key):
                if analysis.nodes[name].op in BRANCHES:
                    self._taken[name] = guard

    # What is changed -------------------------------------------------------------------------------------------------

    def _order(self, editor: GraphEditor, analysis: StepAnalysis, name: str) -> None:
        """Have nodes of both branches, and those behind, wait for what touched the same variables before."""
        before = [t[1:] for t in self._nodes[name].input if t.startswith("^")]
        first, second = (self._inside(analysis, name, which) for which in (_THEN, _ELSE))
        for node in first:
            self._wait(editor, analysis, node, before)
        for node in second:
            self._wait(editor, analysis, node, [*before, *first])
        for node in editor.readers(name):
            if analysis.touched_by(node):
                inputs = [t for t in editor[node].input if t != f"^{name}"]
                editor.set_inputs(node, inputs)
                self._wait(editor, analysis, node, [*first, *second])

    def _wait(self, editor: GraphEditor, analysis: StepAnalysis, name: str, others: Sequence[str]) -> None:
        """Have a node wait for those that touch a variable that it touches, or none."""
        own = set(analysis.touched_by(name))
        sets = ((other, analysis.touched_by(other)) for other in others)
        editor.wait_for(name, [other for other, handles in sets if not handles or not own.isdisjoint(handles)])

    def _guard(self, editor: GraphEditor, analysis: StepAnalysis, name: str, guard: str) -> None:
        """Have a write change nothing unless its branch is taken."""
        node = editor[name]
        handle, *others = data_inputs(node)
        dtype, shapes = tensor_dtype(analysis.nodes, others[-1]), self._shape_of(analysis, name, others[-1])
        if meaning(node.op).unchanged is Unchanged.OLD:
            waits = [tensor for tensor in node.input if tensor.startswith("^")]
            none = editor.add("ReadVariableOp", f"{name}/old", [handle, *waits], dtype=dtype, _output_shapes=shapes)
        else:
            none = editor.constant(f"{name}/none", 0, dtype)
            editor[none].attr["_output_shapes"].list.shape.add()
        inputs = [guard, others[-1], none]
        chosen = editor.add("SelectV2", f"{name}/chosen", inputs, T=dtype, _output_shapes=shapes)
        editor.replace_input(name, len(others), chosen)

    def _shape_of(self, analysis: StepAnalysis, name: str, given: str) -> list[tuple[int | None, ...] | None]:
        shape = tensor_shape(analysis.nodes, given)
        if meaning(analysis.nodes[name].op).handle is Handle.ASSIGNS:
            [handle] = analysis.touched_by(name)
            shape = next(v.shape for v in self._graph.variables if v.handle == handle)
        return [shape]

    def _effects(self, analysis: StepAnalysis, effect: str) -> list[str]:
        if effect not in self._names:
            return [effect]
        every = [name for which in (_THEN, _ELSE) for name in self._inside(analysis, effect, which)]
        return [name for name in every if name in analysis.writes]
