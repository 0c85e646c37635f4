"""The times of the nodes of G, from a trace of the nodes into which TensorFlow has turned them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from autodist.graph import NodeTime, StepTrace, ancestors
from autodist.graph.operators import Kind, is_kind
from autodist.simulator.profiles._work import gradient_nodes

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

_REWRITTEN = re.compile(r"ArithmeticOptimizer/[A-Za-z]+_")
_OF_VENDOR = re.compile(r"^_(Mkl)?(Native)?")


class NodeTimes:
    """The times of a trace, by the nodes of G.

    TensorFlow runs another graph than G: constants are folded, a product is fused with the operations after it under
    the name of the last, a loop becomes the nodes of its body. A node that has run belongs to the node of G with the
    longest name that is a prefix of its own. A node of G without such nodes was fused into the readers of its value.
    """

    def __init__(self, graph: TrainingGraph, trace: StepTrace) -> None:
        self._graph = graph
        self._trace = trace

    @cached_property
    def seen(self) -> Mapping[str, NodeTime]:
        """By node of G, the times of the nodes that belong to it."""
        found: dict[str, NodeTime] = {}
        for name, time in self._trace.nodes.items():
            origin = self._origin(name)
            if origin is not None:
                found[origin] = _joined(found[origin], time) if origin in found else time
        return found

    def _origin(self, name: str) -> str | None:
        """The node of G to which a node that has run belongs; None for one that TensorFlow has added."""
        nodes = self._graph.analysis.nodes
        name = _REWRITTEN.sub("", name).removeprefix("Func/")
        while name and name not in nodes:
            name = name.rpartition("/")[0]
        return name or None

    @cached_property
    def coverage(self) -> float:
        """The fraction of the nodes of G needed by gradients that have times; constants don't count."""
        nodes = self._graph.analysis.nodes
        needed = ancestors(nodes, gradient_nodes(self._graph))
        working = [name for name in needed if not is_kind(nodes[name].op, Kind.SOURCE)]
        return sum(name in self.seen for name in working) / len(working) if working else 1.0

    @cached_property
    def op_s(self) -> dict[str, float]:
        """By type of operation, the total seconds of its operations; the longest first."""
        known = {node.op for node in self._graph.analysis.nodes.values()}
        found: dict[str, float] = {}
        for time in self._trace.nodes.values():
            op = _common(time.op, known)
            found[op] = found.get(op, 0.0) + time.busy_s
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def run_as(self, name: str) -> str | None:
        """The node of G under whose times a node has run: itself, or the first reader into which it was fused."""
        nearest = self._nearest(name, self._graph.analysis.consumers.get)
        return min(nearest, key=lambda near: self.seen[near].start_s, default=None)

    def start_s(self, name: str) -> float | None:
        """When a node began with all its inputs, in seconds; None if it has not run. A loop takes constants earlier."""
        place = self.run_as(name)
        if place is None:
            return None
        return max([self.seen[place].start_s, *map(self.end_s, self._graph.analysis.sources[place])])

    def end_s(self, name: str) -> float:
        """The earliest time at which a node was done, in seconds."""
        nearest = self._nearest(name, self._graph.analysis.sources.get)
        return max((self.seen[near].end_s for near in nearest), default=0.0)

    def _nearest(self, name: str, following: Callable[[str], tuple[str, ...] | None]) -> Iterator[str]:
        """The first nodes with times on all paths from a node."""
        stack, passed = [name], set()
        while stack:
            here = stack.pop()
            if here in passed:
                continue
            passed.add(here)
            if here in self.seen:
                yield here
            else:
                stack.extend(following(here) or ())


def _joined(one: NodeTime, other: NodeTime) -> NodeTime:
    start_s, end_s = min(one.start_s, other.start_s), max(one.end_s, other.end_s)
    return replace(one, start_s=start_s, end_s=end_s, busy_s=one.busy_s + other.busy_s)


def _common(op: str, known: set[str]) -> str:
    """The type of G's operation in place of which one of a library, or a fused one, has run."""
    plain = _OF_VENDOR.sub("", op)
    forms = (plain, plain.removeprefix("Fused"), plain.removesuffix("WithBias"))
    return next((form for form in forms if form in known), plain)
