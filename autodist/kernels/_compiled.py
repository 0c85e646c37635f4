"""Compiled: what TensorFlow can't compute op by op on a CPU is compiled by XLA, as on one device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.graph import COMPILED, output_types
from autodist.kernels._base import DistributedGraph, Fact, Kernel


@dataclass(frozen=True)
class Compiled(Kernel):
    """Call each marked node on a CPU in a function for XLA; the call has the node's name."""

    name: ClassVar[str] = "compiled"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.DEVICES, Fact.OWN})

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        if not any(COMPILED in node.attr for node in graph.graph_def.node):
            return graph
        editor = graph.edit()
        known = {function.signature.name for function in editor.library.function}
        for node in editor.index.nodes.values():
            if COMPILED not in node.attr or "GPU" in node.device:
                continue
            function = _function_of(node)
            if function.signature.name not in known:
                known.add(function.signature.name)
                editor.library.function.add().CopyFrom(function)
            _call(node, function)
        return graph.edited(editor)


def _function_of(node: Any) -> Any:
    """A function with one node of the same type and attributes; its name is the same for equal ones."""
    from tensorflow.core.framework import function_pb2
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    function = function_pb2.FunctionDef()
    inner = function.node_def.add(name="inner", op=node.op)
    for name, value in node.attr.items():
        if not name.startswith("_"):
            inner.attr[name].CopyFrom(value)
    for argument in definition.input_arg:
        kind = argument.type or node.attr[argument.type_attr].type
        name = argument.name.lower()
        function.signature.input_arg.add(name=name, type=kind)
        inner.input.append(name)
    for result, kind in zip(definition.output_arg, output_types(node), strict=True):
        function.signature.output_arg.add(name=result.name, type=kind)
        function.ret[result.name] = f"inner:{result.name}:0"
    digest = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()
    function.signature.name = f"compiled_{node.op}_{digest[:16]}"
    function.attr["_XlaMustCompile"].b = True
    function.attr["_noinline"].b = True  # the inlined node would not be compiled
    return function


def _call(node: Any, function: Any) -> None:
    """Turn a node into a call of its function."""
    shapes = node.attr.get("_output_shapes")
    called = type(node)(name=node.name, op="PartitionedCall", device=node.device, input=node.input)
    called.attr["Tin"].list.type.extend(argument.type for argument in function.signature.input_arg)
    called.attr["Tout"].list.type.extend(argument.type for argument in function.signature.output_arg)
    called.attr["f"].func.name = function.signature.name
    called.attr["_XlaMustCompile"].b = True
    for name in ("config", "config_proto", "executor_type"):
        called.attr[name].s = b""
    if shapes is not None:
        called.attr["_output_shapes"].CopyFrom(shapes)
    node.CopyFrom(called)
