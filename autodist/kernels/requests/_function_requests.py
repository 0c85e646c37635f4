"""Requests of functions: how loops and branches read variables that live on other workers.

A node of control flow gets the handle of such a variable, and its functions look up rows by it, in some iterations or
in none. This module replaces the lookups in the functions by questions. The handle that the functions get afterwards
is a dummy, which is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autodist.errors import StrategyError
from autodist.graph import (
    BRANCHES,
    CALLS,
    LOOPS,
    GraphEditor,
    argument_aliases,
    called_functions,
    node_of,
    normalize,
    tensor_dtype,
)
from autodist.graph.operators import Handle, Kind, first_argument, is_kind, meaning
from autodist.kernels._questions import QuestionBuilder, WantedNodes

_Handle = tuple[Any, int]
"""The node of a variable's handle, and the worker that has the variable."""


def num_rows(lookup: Any, handle: Any) -> int:
    """The number of rows that a lookup chooses from; -1 for a node that is not a plain lookup of rows by number."""
    if lookup.op != "ResourceGather" or handle.op != "VarHandleOp" or lookup.attr["batch_dims"].i:
        return -1
    dims = handle.attr["shape"].shape.dim
    return int(dims[0].size) if dims else -1


def find_directly(editor: GraphEditor, handles: Iterable[str], device: str) -> None:
    """Have nodes take the handles of variables directly, not from loops that pass them on, and know their shapes.

    Args:
        editor: Editor of the graph.
        handles: The nodes of the handles of variables that live on other workers.
        device: The device of added constants.
    """
    for handle in handles:
        names = [handle]
        while names:
            found = names.pop()
            readers = [editor[name] for name in editor.readers(node_of(found))]
            taken = [(n, k) for n in readers for k, tensor in enumerate(n.input) if normalize(tensor) == found]
            editor.redirect({found: handle})
            for node, k in taken:
                if node.op in LOOPS:
                    names.append(normalize(f"{node.name}:{k}"))
                elif node.op == "Identity":
                    names.append(node.name)
                elif node.op == "VariableShape":
                    editor.set_inputs(node.name, [tensor for tensor in node.input if tensor.startswith("^")])
                    _become_shape(node, editor[handle])
                    node.device = device


class FunctionRequests:
    """Has functions ask for the values and rows that they read of other workers' variables.

    Args:
        editor: Editor of the graph that calls them; those that ask are added to its library.
        asking: Builds the questions.
    """

    def __init__(self, editor: GraphEditor, asking: QuestionBuilder) -> None:
        self._editor = editor
        self._library = editor.library
        self._asking = asking
        self._functions = {function.signature.name: function for function in self._library.function}
        self._names: dict[Any, str] = {}
        self._stand_ins: dict[str, str] = {}

    def rewrite(self, node: Any, handles: Mapping[str, _Handle]) -> None:
        """Have a node call functions that ask.

        Args:
            node: One of this worker's, which is changed.
            handles: By input that is the handle of another worker's variable, the handle's node and the worker.

        Raises:
            StrategyError: The node does something else than read the variable.
        """
        used = {k: handles[t] for k, t in enumerate(node.input) if t in handles and handles[t][0].op == "VarHandleOp"}
        if used:
            self._call(node, used)
            for k, (handle, _) in used.items():
                self._editor.replace_input(node.name, k, self._stand_in(handle))

    def _stand_in(self, handle: Any) -> str:
        if handle.name not in self._stand_ins:
            nodes = self._asking.nodes
            self._stand_ins[handle.name] = name = nodes.clone(handle, f"autodist/elsewhere/{handle.name}", ())
            nodes.nodes[-1].attr["shared_name"].s = name.encode()
        return self._stand_ins[handle.name]

    def _call(self, node: Any, used: Mapping[int, _Handle]) -> None:
        """Have a node of control flow, whose inputs are handles at some positions, call functions that ask."""
        if node.op not in LOOPS | BRANCHES | CALLS:
            raise StrategyError(
                f"`{node.name}`, a `{node.op}`, changes a variable that lives on another worker",
                hint="let the optimizer change it, outside of loops and branches; or use AllReduce",
            )
        first = first_argument(node.op)
        arguments = {k - first: handle for k, handle in used.items()}
        for called in called_functions(node):
            called.name = self._asking_one(called.name, arguments)

    def _asking_one(self, name: str, arguments: Mapping[int, _Handle]) -> str:
        key = name, *sorted((position, handle.name) for position, (handle, _) in arguments.items())
        if key not in self._names:
            self._names[key] = new_name = f"{name}__asks_{len(self._names)}"
            function = self._library.function.add()
            function.CopyFrom(self._functions[name])
            function.signature.name = new_name
            self._change(function, arguments)
        return self._names[key]

    def _change(self, function: Any, arguments: Mapping[int, _Handle]) -> None:
        handles = {alias: found for k, found in arguments.items() for alias in argument_aliases(function, k)}
        renamed: dict[str, str] = {}
        for node in list(function.node_def):
            used = {k: handles[tensor] for k, tensor in enumerate(node.input) if tensor in handles}
            if not used or node.op == "Identity":
                continue
            if (output := _output_of_read(node.op)) is not None:
                renamed[f"{node.name}:{output}:0"] = f"{node.name}:results:0"
                self._ask(function, node, used[0])
            elif node.op == "VariableShape":
                _become_shape(node, used[0][0])
            else:
                self._call(node, used)
        for node in function.node_def:
            node.input[:] = [renamed.get(tensor, tensor) for tensor in node.input]
        for output, tensor in function.ret.items():
            function.ret[output] = renamed.get(tensor, tensor)

    def _ask(self, function: Any, node: Any, found: _Handle) -> None:
        """Replace a node of a function that reads a variable by a question for its result."""
        import tensorflow as tf

        handle, owner = found
        lookup = type(node)()
        lookup.CopyFrom(node)
        lookup.device = handle.device
        is_lookup = meaning(node.op).lookup is not None
        lookup.input[:] = [handle.name, "rows"] if is_lookup else [handle.name]
        given = {"rows": str(tf.as_dtype(node.attr["Tindices"].type).name)} if is_lookup else {}
        results = [(lookup.name, tensor_dtype({lookup.name: lookup}, lookup.name))]
        asked = self._asking.answered(
            f"{function.signature.name}/{node.name}", owner, WantedNodes([handle, lookup], given, results, ())
        )
        inputs = list(node.input[1:]) if is_lookup else [*self._constant(function, node.name), *node.input[1:]]
        dtypes = node.attr["Tindices"].type if is_lookup else tf.bool.as_datatype_enum, node.attr["dtype"].type
        below = num_rows(node, handle)
        node.op, node.input[:] = "AutodistAsk", inputs
        node.attr.clear()
        node.attr["T"].list.type.append(dtypes[0])
        node.attr["Tout"].list.type.append(dtypes[1])
        node.attr["collective"].s = asked.encode()
        node.attr["ranks"].list.i.append(owner)
        node.attr["below"].i = below

    @staticmethod
    def _constant(function: Any, name: str) -> list[str]:
        """Add the bool that a question without tensors sends."""
        import tensorflow as tf

        node = function.node_def.add(name=f"{name}/question", op="Const")
        node.attr["dtype"].type = tf.bool.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(True))
        return [f"{node.name}:output:0"]


def _become_shape(node: Any, handle: Any) -> None:
    """Make the question for a variable's shape a constant."""
    import tensorflow as tf

    dtype = tf.as_dtype(node.attr["out_type"].type)
    dims = [dim.size for dim in handle.attr["shape"].shape.dim]
    waits = [tensor for tensor in node.input if tensor.startswith("^")]
    node.op, node.input[:] = "Const", waits
    node.attr.clear()
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(dims, dtype=dtype))


def _output_of_read(op: str) -> str | None:
    """The name that functions have for the output of an op that reads a variable's values; None for any other op."""
    from tensorflow.python.framework import op_def_registry

    if meaning(op).handle is not Handle.READS or is_kind(op, Kind.SHAPE):
        return None
    return next((output.name for output in op_def_registry.get(op).output_arg), None)
