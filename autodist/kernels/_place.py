"""Place: give every variable and every node its device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.graph import StepAnalysis
from autodist.graph.operators import CONTROL_FLOW, meaning
from autodist.kernels._base import DistributedGraph, Fact, Kernel


def runs_at_home(op: str) -> bool:
    """Whether an op runs where the variable lives whose value is its first input."""
    lookup = meaning(op).lookup
    return op == "Shape" or (lookup is not None and not lookup.by_handle)


def stays_at_home(node: Any, position: int) -> bool:
    """Whether a node's input at a position is a variable's value and the node runs where the variable lives."""
    return position == 0 and runs_at_home(node.op)


@dataclass(frozen=True)
class Place(Kernel):
    """Replace the placeholders of resource handles by handles where they are placed, and pin every node.

    Ops on a variable run where it lives. So do lookups in it and questions for its shape: else the whole table would
    travel for a few rows.

    Attributes:
        container: Resource container of the variables, the same for all steps that share them.
    """

    name: ClassVar[str] = "place"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.COPIES, Fact.STATE, Fact.PARTS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.DEVICES})
    container: str = ""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        main = graph.layout.main_device
        placement = {v.name: graph.placement.get(v.name, main) for v in graph.variables}
        by_handle = {v.handle: v for v in graph.variables}
        editor, analysis = graph.edit(), graph.analyze()
        for name, node in editor.index.nodes.items():
            # A worker has one of each lookup table, whatever the number of its devices.
            node.device = main if meaning(node.op).table is not None else node.device or main
            variable = by_handle.get(name)
            if variable is not None:
                _make_handle(node, variable.name, variable.dtype, variable.shape, self.container)
                node.device = placement[variable.name]
                continue
            home = self._home(analysis, name, node, placement, by_handle)
            if home is not None:
                node.device = home
            if "_class" in node.attr:
                del node.attr["_class"]
        return graph.edited(editor, placement=placement)

    def _home(
        self, analysis: StepAnalysis, name: str, node: Any, placement: dict[str, str], by_handle: dict[str, Any]
    ) -> str | None:
        """The device of the variables that a node touches, None if it touches none."""
        touched, op = analysis.touched_by(name), node.op
        if op in CONTROL_FLOW and name not in analysis.writes:
            return None  # it runs on this worker, wherever the values that it looks up are
        sources = analysis.sources[name] if not touched and runs_at_home(op) else ()
        if sources and analysis.nodes[sources[0]].op == "ReadVariableOp":
            touched = analysis.touched_by(sources[0])
        devices = {placement[by_handle[handle].name] for handle in touched}
        # A node of control flow may read variables in several places; TensorFlow places the parts of its body.
        return devices.pop() if len(devices) == 1 else None


def _make_handle(node: Any, name: str, dtype: str, shape: tuple[int, ...], container: str) -> None:
    import tensorflow as tf

    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = tf.as_dtype(dtype).as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    node.attr["shared_name"].s = name.encode()
    node.attr["container"].s = container.encode()
