"""Splits a program of arrays at a loop whose turns depend on data: what is before it, one turn, and what is behind it.

Replicas can't exchange anything within a loop of TensorFlow. Each turn as a program of its own can be shared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    RESOURCE,
    VARIANT,
    ancestors,
    data_inputs,
    is_stateful,
    node_of,
    normalize,
    split_tensor,
    tensor_name,
)
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.operators import LOOPS

_NO_LETTERS = re.compile(r"\W")


@dataclass(frozen=True)
class LoopSegments:
    """The segments of a program with a loop, each a function of arrays.

    Attributes:
        before: Takes the program's arguments; returns the loop's first values that are no arguments, and whether it
            turns.
        turn: Takes the loop's values; returns those that change, and whether it turns again.
        behind: Takes the program's arguments and those last values of the loop that it needs; returns the results.
        given: Per value of the loop, the number of the argument that it begins with; None if `before` returns it.
        changed: The values of the loop that a turn changes.
        ends: The values of the loop that `behind` is given.
    """

    before: Callable[..., Any]
    turn: Callable[..., Any]
    behind: Callable[..., Any]
    given: tuple[int | None, ...]
    changed: tuple[int, ...]
    ends: tuple[int, ...]


def loop_segments(graph: TrainingGraph, name: str, arguments: Sequence[str]) -> LoopSegments | None:
    """The segments of a program at the first of its loops; None if it can't be split.

    Args:
        graph: The program, without variables; loops with known numbers of turns are unrolled.
        name: What it is called.
        arguments: What its arguments are called.
    """
    nodes = {node.name: node for node in graph.graph_def.node}
    loops = [node for node in nodes.values() if node.op in LOOPS]
    first = [loop for loop in loops if not _loops_before(loop, nodes)]
    if not first or graph.variables or graph.effects or not _can_travel(first[0], graph, nodes):
        return None
    if _does_more_than_compute(graph.graph_def):
        return None
    return _Split(graph, nodes, first[0], name, arguments).segments()


def _loops_before(loop: Any, nodes: Mapping[str, Any]) -> bool:
    needed = ancestors(nodes, map(node_of, loop.input))
    return any(nodes[name].op in LOOPS for name in needed)


def _can_travel(loop: Any, graph: TrainingGraph, nodes: Mapping[str, Any]) -> bool:
    """Whether the values of a loop, and all arguments, are arrays, and something depends on the loop."""
    shapes = loop.attr["_output_shapes"].list.shape
    is_known = shapes and all(not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim) for shape in shapes)
    needed = ancestors(nodes, (node_of(output.tensor) for output in graph.outputs))
    return bool(is_known) and not {RESOURCE, VARIANT} & set(loop.attr["T"].list.type) and loop.name in needed


def _does_more_than_compute(graph_def: Any) -> bool:
    """Whether something is drawn, printed or checked, which happens once in a program that is not split."""
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    return any(is_stateful(node.op) for body in bodies for node in body)


class _Split:
    def __init__(
        self, graph: TrainingGraph, nodes: Mapping[str, Any], loop: Any, name: str, arguments: Sequence[str]
    ) -> None:
        self._graph = graph
        self._nodes = nodes
        self._loop = loop
        self._library = graph.graph_def.library
        self._bodies = FunctionBodies(graph.graph_def)
        self._arguments = [normalize(given.tensor) for given in graph.inputs]
        self._begins = [normalize(tensor) for tensor in data_inputs(loop)]
        self._name = name
        self._names = [_NO_LETTERS.sub("_", argument.strip("`")) for argument in arguments]

    def segments(self) -> LoopSegments:
        """See :func:`loop_segments`."""
        given = tuple(self._arguments.index(tensor) if tensor in self._arguments else None for tensor in self._begins)
        body = self._loop.attr["body"].func.name
        arguments, results = self._bodies.arguments(body), self._bodies.results(body)
        changed = tuple(k for k, result in enumerate(results) if result != arguments[k])
        ends = self._ends()
        begun = [_NO_LETTERS.sub("_", node_of(tensor)) for tensor in self._begins]
        values = [begun[k] if place is None else self._names[place] for k, place in enumerate(given)]
        named = [*self._names, *(values[k] for k in ends)]
        before = self._named(self._before(given), f"{self._name}, before the loop", self._names)
        turn = self._named(self._turn(changed), f"{self._name}, a turn of the loop", values)
        behind = self._named(self._behind(ends), f"{self._name}, after the loop", named)
        return LoopSegments(before, turn, behind, given, changed, ends)

    def _named(self, function: Callable[..., Any], name: str, arguments: Sequence[str]) -> Callable[..., Any]:
        import tensorflow as tf

        segment: Any = tf.autograph.experimental.do_not_convert(function)
        segment.__name__ = name
        kind = inspect.Parameter.POSITIONAL_ONLY
        unique: list[str] = []
        for argument in arguments:
            unique.append(argument if argument not in unique else f"{argument}_{len(unique)}")
        segment.__signature__ = inspect.Signature([inspect.Parameter(argument, kind) for argument in unique])
        named: Callable[..., Any] = segment
        return named

    def _before(self, given: Sequence[int | None]) -> Callable[..., Any]:
        def before(*arrays: Any) -> list[Any]:
            known = dict(zip(self._arguments, arrays, strict=True))
            values = self._imported(self._nodes, known, self._begins)
            computed = [value for value, place in zip(values, given, strict=True) if place is None]
            return [*computed, self._turns(values)]

        return before

    def _turn(self, changed: Sequence[int]) -> Callable[..., Any]:
        body = self._loop.attr["body"].func.name

        def turn(*arrays: Any) -> list[Any]:
            known = dict(zip(self._bodies.arguments(body), arrays, strict=True))
            made = self._imported(self._bodies.nodes(body), known, self._bodies.results(body))
            return [*(made[k] for k in changed), self._turns(made)]

        return turn

    def _turns(self, values: Sequence[Any]) -> Any:
        """Whether the loop turns with these values."""
        test = self._loop.attr["cond"].func.name
        known = dict(zip(self._bodies.arguments(test), values, strict=True))
        return self._imported(self._bodies.nodes(test), known, self._bodies.results(test)[:1])[0]

    @property
    def _results(self) -> list[str]:
        return [normalize(output.tensor) for output in self._graph.outputs]

    def _ends(self) -> tuple[int, ...]:
        """The values of the loop that are read by what is behind it, or returned."""
        needed = ancestors(self._nodes, map(node_of, self._results), lambda name: name == self._loop.name)
        read = {normalize(tensor) for name in needed - {self._loop.name} for tensor in self._nodes[name].input}
        read.update(self._results)
        return tuple(k for k in range(len(self._begins)) if tensor_name(self._loop.name, k) in read)

    def _behind(self, ends: Sequence[int]) -> Callable[..., Any]:
        names = [*self._arguments, *(tensor_name(self._loop.name, k) for k in ends)]

        def behind(*arrays: Any) -> list[Any]:
            return self._imported(self._nodes, dict(zip(names, arrays, strict=True)), self._results)

        return behind

    def _imported(self, nodes: Mapping[str, Any], known: Mapping[str, Any], wanted: Sequence[str]) -> list[Any]:
        """Tensors of some nodes in the present graph, computed from known ones."""
        import tensorflow as tf

        given = {node_of(tensor) for tensor in known}
        computed = [tensor for tensor in wanted if tensor not in known]
        needed = ancestors(nodes, map(node_of, computed), lambda name: name in given)
        part = tf.compat.v1.GraphDef(library=self._library)
        for name in needed - given:
            copy = part.node.add()
            copy.CopyFrom(nodes[name])
            copy.device = ""
            copy.attr.pop("_class", None)
            copy.attr.pop("_output_shapes", None)
        read = {normalize(tensor) for name in needed - given for tensor in nodes[name].input}
        mapped = {_full(tensor): value for tensor, value in known.items() if tensor in read}
        made = tf.graph_util.import_graph_def(
            part, input_map=mapped, return_elements=list(map(_full, computed)), name="at"
        )
        found = {**known, **dict(zip(computed, made, strict=True))}
        return [found[tensor] for tensor in wanted]


def _full(tensor: str) -> str:
    name, index = split_tensor(tensor)
    return f"{name}:{index}"
