"""Unrolls loops with a fixed number of iterations: these become nodes of the graph, one after the other.

Nodes of the graph can be shared tensor by tensor, and replicas can exchange values in each iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import VARIANT, ancestors, data_inputs, is_stateful, node_of, split_tensor
from autodist.graph._inline import inline_calls
from autodist.graph.operators import LOOPS

_MOST_NODES = 20_000
_MOST_TURNS = 1000
_DEPTH = 4
"""How deeply nested loops are unrolled."""


def unroll_loops(graph_def: Any) -> tuple[Any, dict[str, str], tuple[str, ...]]:
    """Unroll the loops of a flat graph whose numbers of turns are known, and which have no effects.

    Returns:
        The graph; by output tensor of a loop, the tensor that takes its place; and the loops that are left.
    """
    aliases: dict[str, str] = {}
    for _ in range(_DEPTH):
        bodies = FunctionBodies(graph_def)
        nodes = {node.name: node for node in graph_def.node}
        turns = {name: _turns(node, nodes, bodies) for name, node in nodes.items() if node.op == "StatelessWhile"}
        room = _MOST_NODES - len(nodes)
        sizes = {name: (n or 0) * len(bodies.nodes(nodes[name].attr["body"].func.name)) for name, n in turns.items()}
        wanted = {name: n for name, n in turns.items() if n is not None and sizes[name] <= room}
        if not wanted:
            break
        graph_def, found = inline_calls(_with_calls(graph_def, wanted))
        aliases.update(found)
    return graph_def, aliases, tuple(node.name for node in graph_def.node if node.op in LOOPS)


def _with_calls(graph_def: Any, turns: Mapping[str, int]) -> Any:
    """The graph with a call of its body for each turn of a loop; the last one has the loop's name."""
    made = type(graph_def)(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name not in turns:
            made.node.add().CopyFrom(node)
            continue
        given = list(node.input)
        count = turns[node.name]
        for turn in range(count):
            name = node.name if turn == count - 1 else f"{node.name}/turn_{turn}"
            call = made.node.add(name=name, op="PartitionedCall", device=node.device, input=given)
            call.attr["f"].func.CopyFrom(node.attr["body"].func)
            for kind in ("Tin", "Tout"):
                call.attr[kind].list.type.extend(node.attr["T"].list.type)
            given = [f"{name}:{k}" for k in range(len(node.attr["T"].list.type))]
        if not count:
            kept = made.node.add(name=node.name, op="IdentityN", device=node.device, input=given)
            kept.attr["T"].list.type.extend(node.attr["T"].list.type)
    return made


def _turns(loop: Any, nodes: Mapping[str, Any], bodies: FunctionBodies) -> int | None:
    """How often a loop turns; None where data say so, or it keeps lists."""
    if VARIANT in loop.attr["T"].list.type:
        return None
    cond, body = loop.attr["cond"].func.name, loop.attr["body"].func.name
    counted = _counted(cond, body, bodies)
    tensors = data_inputs(loop)
    needed = ancestors(dict(nodes), [node_of(tensors[k]) for k in counted])
    if any(is_stateful(nodes[name].op) or nodes[name].op == "Placeholder" for name in needed):
        return None
    return _Simulation(nodes, needed, bodies, cond, body, counted).run([tensors[k] for k in counted])


def _counted(cond: str, body: str, bodies: FunctionBodies) -> list[int]:
    """The values of a loop that decide when it ends."""
    places = {name: k for k, name in enumerate(bodies.arguments(body))}
    tests = bodies.nodes(cond)
    begun = ancestors(tests, [node_of(bodies.results(cond)[0])])
    found = {k for k, name in enumerate(bodies.arguments(cond)) if name in begun}
    steps, results = bodies.nodes(body), bodies.results(body)
    stack = list(found)
    while stack:
        needed = ancestors(steps, [node_of(results[stack.pop()])])
        new = {places[name] for name in needed if name in places} - found
        found |= new
        stack.extend(new)
    return sorted(found)


class _Simulation:
    """Runs a loop with only those values that decide when it ends."""

    def __init__(
        self,
        nodes: Mapping[str, Any],
        needed: set[str],
        bodies: FunctionBodies,
        cond: str,
        body: str,
        counted: Sequence[int],
    ) -> None:
        import tensorflow as tf

        self._graph = tf.Graph()
        self._counted = counted
        self._tests = bodies.results(cond)[:1]
        self._results = [bodies.results(body)[k] for k in counted]
        self._arguments = {kind: [bodies.arguments(f)[k] for k in counted] for kind, f in (("c", cond), ("b", body))}
        with self._graph.as_default():
            self._import("o", nodes, needed)
            self._import("c", bodies.nodes(cond), ancestors(bodies.nodes(cond), map(node_of, self._tests)))
            self._import("b", bodies.nodes(body), ancestors(bodies.nodes(body), map(node_of, self._results)))

    def _import(self, prefix: str, nodes: Mapping[str, Any], wanted: set[str]) -> None:
        import tensorflow as tf

        part = tf.compat.v1.GraphDef()
        for name in wanted:
            copy = part.node.add()
            copy.CopyFrom(nodes[name])
            copy.device = ""
            copy.attr.pop("_class", None)
            copy.attr.pop("_output_shapes", None)
            del copy.input[:]
            copy.input.extend(tensor for tensor in nodes[name].input if node_of(tensor) in wanted)
        tf.graph_util.import_graph_def(part, name=prefix)

    def run(self, given: Sequence[str]) -> int | None:
        """The number of turns; None for too many, or if it can't be found out in this way."""
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        try:
            with tf.compat.v1.Session(graph=self._graph, config=config) as session:
                values = session.run([_full("o", tensor) for tensor in given])
                for turn in range(_MOST_TURNS + 1):
                    if not self._call(session, "c", values, self._tests)[0]:
                        return turn
                    values = self._call(session, "b", values, self._results)
        except (tf.errors.OpError, ValueError, KeyError):  # functions within it, for one
            return None
        return None

    def _call(self, session: Any, prefix: str, values: Sequence[np.ndarray], wanted: Sequence[str]) -> list[Any]:
        names = {operation.name for operation in self._graph.get_operations()}
        pairs = zip(self._arguments[prefix], values, strict=True)
        feeds = {f"{prefix}/{name}:0": value for name, value in pairs if f"{prefix}/{name}" in names}
        return list(session.run([_full(prefix, tensor) for tensor in wanted], feeds))


def _full(prefix: str, tensor: str) -> str:
    name, index = split_tensor(tensor)
    return f"{prefix}/{name}:{index}"
