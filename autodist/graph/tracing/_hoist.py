"""Reads of variables inside control flow, moved before it: a value is read once, not in every turn of a loop.

A loop that gets a variable's handle reads it again in each turn. Where the variable lives on another machine each of
these reads waits for the network. Control flow that only reads a variable can get its value instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.graph._graph_def import called_functions, data_inputs, normalize
from autodist.graph.operators import (
    BRANCHES,
    CALLS,
    CONTROL_FLOW,
    LOOPS,
    Handle,
    Passes,
    first_argument,
    meaning,
    passes_on,
)

_READ_ONLY = "_read_only_resource_inputs"
_Position: TypeAlias = int
"""The number of an argument of a function."""


@dataclass(frozen=True)
class _Value:
    """The replacement of a handle."""

    dtype: int
    shape: Any
    """As a protobuf."""


def hoist_reads(graph_def: Any, variables: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Have loops that only read a variable get its value instead of its handle, and branches with such loops as well.

    A node that looks rows up in the variable, or writes to it, keeps the handle. So does a branch without a loop: it
    may be taken in few steps, and reads once. The new read waits for all that the control flow waits for.

    Args:
        graph_def: A flat graph, which is changed; functions that are changed have new names.
        variables: By name of the node of each handle, the variable's dtype and shape.
    """
    _Hoisting(graph_def, variables).run()


class _Hoisting:
    def __init__(self, graph_def: Any, variables: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        self._graph_def = graph_def
        self._variables = variables
        self._library = _Library(graph_def.library)
        self._handles: dict[str, str] = {}
        """By output of a loop that only passes a handle on, that handle."""
        self._reads: dict[tuple[str, ...], str] = {}

    def run(self) -> None:
        for node in list(self._graph_def.node):
            self._take_handles(node)
            if node.op in CONTROL_FLOW:
                self._hoist_from(node)
        for node in self._graph_def.node if self._handles else ():
            self._take_handles(node)

    def _take_handles(self, node: Any) -> None:
        """Have a node take a handle from where it is, not from a loop that passes it on."""
        for k, tensor in enumerate(node.input) if self._handles else ():
            if tensor in self._handles:
                node.input[k] = self._handles[tensor]

    def _hoist_from(self, node: Any) -> None:
        first, names = first_argument(node.op), _called(node)
        found: dict[_Position, _Value] = {}
        for k, tensor in enumerate(data_inputs(node)[first:]):
            if tensor not in self._variables or not all(self._library.only_reads(name, k) for name in names):
                continue
            if node.op in BRANCHES and not any(self._library.loops_over(name, k) for name in names):
                continue
            found[k] = self._value(tensor)
            node.input[first + k] = self._read(node, tensor, found[k])
            if node.op in LOOPS:
                self._handles[normalize(f"{node.name}:{k}")] = tensor
        if found:
            self._library.give_values(node, found)

    def _value(self, handle: str) -> _Value:
        import tensorflow as tf

        dtype, shape = self._variables[handle]
        return _Value(tf.as_dtype(dtype).as_datatype_enum, tf.TensorShape(shape).as_proto())

    def _read(self, node: Any, handle: str, value: _Value) -> str:
        """A read of the variable that waits for what the node waits for.

        A loop runs on the device of its inputs, which is not the one where the variable lives.
        """
        waits = sorted(tensor for tensor in node.input if tensor.startswith("^"))
        key = (handle, *waits)
        if key not in self._reads:
            read = self._graph_def.node.add(name=f"{node.name}/{handle}/hoisted", op="ReadVariableOp")
            read.input.extend([handle, *waits])
            read.attr["dtype"].type = value.dtype
            here = self._graph_def.node.add(name=f"{read.name}/value", op="Identity", input=[read.name])
            here.attr["T"].type = value.dtype
            for added in (read, here):
                added.attr["_output_shapes"].list.shape.add().CopyFrom(value.shape)
            self._reads[key] = here.name
        return self._reads[key]


class _Library:
    """The functions of a graph, and their variants that take a value instead of a handle."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._functions = {function.signature.name: function for function in library.function}

    @functools.cache  # noqa: B019  # lives as long as one call of `hoist_reads`
    def only_reads(self, name: str, position: _Position) -> bool:
        """Whether a function does nothing with the handle at a position but read it, and return it in its place."""
        function = self._functions[name]
        aliases = argument_aliases(function, position)
        returned = [k for k, output in enumerate(function.signature.output_arg) if function.ret[output.name] in aliases]
        if returned not in ([], [position]):
            return False
        return all(self._only_reads(node, aliases) for node in function.node_def)

    @functools.cache  # noqa: B019  # as above
    def loops_over(self, name: str, position: _Position) -> bool:
        """Whether a function has a loop that gets the handle at a position."""
        function = self._functions[name]
        aliases = argument_aliases(function, position)
        return any(
            node.op in LOOPS or any(self.loops_over(called, k - first_argument(node.op)) for called in _called(node))
            for node in function.node_def
            if node.op in LOOPS | BRANCHES | CALLS
            for k, tensor in enumerate(node.input)
            if tensor in aliases
        )

    def _only_reads(self, node: Any, aliases: set[str]) -> bool:
        used = [k for k, tensor in enumerate(node.input) if tensor in aliases]
        if not used or _only_reads(node.op):
            return True
        if node.op not in LOOPS | BRANCHES | CALLS:
            return False
        first = first_argument(node.op)
        reads = all(self.only_reads(name, k - first) for k in used for name in _called(node))
        return reads and not (node.op in BRANCHES | CALLS and self._returns(node, used, first))

    def _returns(self, node: Any, used: list[int], first: int) -> bool:
        """Whether what a node calls returns a handle; of a loop's outputs it is known which."""
        for name in _called(node):
            function = self._functions[name]
            aliases = set().union(*(argument_aliases(function, k - first) for k in used))
            if aliases & set(function.ret.values()):
                return True
        return False

    def give_values(self, node: Any, values: Mapping[_Position, _Value]) -> None:
        """Have a node of control flow, or a call, call functions that take values at some positions."""
        for called in called_functions(node):
            called.name = self._with_values(called.name, values)
        types = node.attr["T" if node.op in LOOPS else "Tin"].list.type
        for position, value in values.items():
            types[position] = value.dtype
            if node.op in LOOPS:
                for attribute in ("output_shapes", "_output_shapes"):
                    shapes = node.attr[attribute].list.shape if attribute in node.attr else ()
                    if position < len(shapes):
                        shapes[position].CopyFrom(value.shape)
        if _READ_ONLY in node.attr:
            del node.attr[_READ_ONLY]  # it counts the arguments, and only tracing uses it

    def _with_values(self, name: str, values: Mapping[_Position, _Value]) -> str:
        new_name = f"{name}__values_{'_'.join(map(str, sorted(values)))}"
        if new_name not in self._functions:
            function = self._library.function.add()
            function.CopyFrom(self._functions[name])
            function.signature.name = new_name
            self._functions[new_name] = function
            self._change(function, values)
        return new_name

    def _change(self, function: Any, values: Mapping[_Position, _Value]) -> None:
        renamed: dict[str, str] = {}
        for position, value in values.items():
            aliases = argument_aliases(function, position)
            argument = function.signature.input_arg[position]
            argument.type = value.dtype
            argument.ClearField("handle_data")
            if position in function.arg_attr:
                del function.arg_attr[position]
            for k, output in enumerate(function.signature.output_arg):
                if function.ret[output.name] in aliases:
                    function.signature.output_arg[k].type = value.dtype
                    function.signature.output_arg[k].ClearField("handle_data")
            for node in function.node_def:
                self._change_node(node, aliases, value, renamed)
        for node in function.node_def:
            node.input[:] = [renamed.get(tensor, tensor) for tensor in node.input]
        for output, tensor in function.ret.items():
            function.ret[output] = renamed.get(tensor, tensor)

    def _change_node(self, node: Any, aliases: set[str], value: _Value, renamed: dict[str, str]) -> None:
        used = [k for k, tensor in enumerate(node.input) if tensor in aliases]
        if not used:
            return
        if node.op == "ReadVariableOp":
            renamed[f"{node.name}:value:0"] = f"{node.name}:output:0"
            _become(node, "Identity", {"T": value.dtype})
        elif node.op == "VariableShape":
            _become(node, "Shape", {"T": value.dtype, "out_type": node.attr["out_type"].type})
        elif node.op == "Identity":
            _become(node, "Identity", {"T": value.dtype})
        else:
            self.give_values(node, {k - first_argument(node.op): value for k in used})


def argument_aliases(function: Any, position: _Position) -> set[str]:
    """The names of an argument in a function: its own, those of identical values, and those in loops."""
    found = {function.signature.input_arg[position].name}
    is_growing = True
    while is_growing:
        is_growing = False
        for node in function.node_def:
            for tensor in _passed_on(node, found) - found:
                found.add(tensor)
                is_growing = True
    return found


def _passed_on(node: Any, aliases: set[str]) -> set[str]:
    used = [k for k, tensor in enumerate(node.input) if tensor in aliases]
    if node.op == "Identity" and used:
        return {f"{node.name}:output:0"}
    if node.op in LOOPS:
        return {f"{node.name}:output:{k}" for k in used}
    return set()


def _become(node: Any, op: str, types: Mapping[str, int]) -> None:
    kept = {"_output_shapes"} if node.op != "Identity" else set()  # the result of an Identity of a handle has its shape
    for name in set(node.attr) - kept:
        del node.attr[name]
    node.op = op
    for name, dtype in types.items():
        node.attr[name].type = dtype


def _called(node: Any) -> list[str]:
    return [function.name for function in called_functions(node)]


def _only_reads(op: str) -> bool:
    """Whether an operator takes the value of a variable, its shape, or its handle."""
    return passes_on(op, Passes.SAME) or (meaning(op).handle is Handle.READS and meaning(op).lookup is None)
