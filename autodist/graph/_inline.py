"""Flattening: every call of a library function is replaced by the function's body.

Control flow (``If``, ``While``, ``Case``) keeps its functions. Marks on gradients survive, as do control
dependencies: a ``NoOp`` under the call's name means "the call has finished".
"""

from __future__ import annotations

from typing import Any

from autodist.graph._graph_def import OWN_GRADIENT, full_name, is_stateful, node_of, normalize, strip_missing_colocation
from autodist.graph.batch import BY
from autodist.graph.operators import CALLS


def inline_calls(graph_def: Any) -> tuple[Any, dict[str, str]]:
    """Inline all calls, nested ones as well.

    Returns:
        The flat GraphDef, and for every output tensor of an inlined call the tensor that takes its place.
    """
    inliner = _Inliner(graph_def)
    for node in graph_def.node:
        inliner.emit(node)
    return inliner.finish(), inliner.aliases


def resolved(tensor: str, aliases: dict[str, str]) -> str:
    """The tensor that has taken the place of another one, by its short name."""
    full = full_name(tensor)
    while full in aliases:
        full = full_name(aliases[full])
    return normalize(full)


class _Inliner:
    def __init__(self, graph_def: Any) -> None:
        import tensorflow as tf

        self.functions = {function.signature.name: function for function in graph_def.library.function}
        self.bodies: dict[str, tuple[Any, dict[str, str]]] = {}
        self.aliases: dict[str, str] = {}
        self.identities: dict[str, list[str]] = {}
        self.own_gradients: list[str] = []
        self.used: set[str] = set()
        self.flat = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)

    def emit(self, node: Any) -> None:
        if node.op in CALLS:
            self._emit_call(node)
        elif node.op == "IdentityN" and BY not in node.attr:
            self._emit_identity(node)
        else:
            self.flat.node.add().CopyFrom(node)

    def finish(self) -> Any:
        for node in self.flat.node:
            for tensor in self.identities.get(node.name, ()):  # nodes that wait for this one wait for its inputs
                node.input.append(f"^{node_of(self._resolve(tensor))}")
            tensors = list(node.input)
            data = [normalize(self._resolve(tensor)) for tensor in tensors if not tensor.startswith("^")]
            control = sorted({tensor for tensor in tensors if tensor.startswith("^")})
            if data + control != tensors:
                node.input[:] = data + control
        self._note_own_gradients()
        strip_missing_colocation(self.flat)
        return self.flat

    def _emit_call(self, call: Any) -> None:
        function = self.functions[call.attr["f"].func.name]
        body, tensor_names = self._body(function)
        start = self._emit_start(call)
        data = [tensor for tensor in call.input if not tensor.startswith("^")]
        arguments = {arg.name: data[k] for k, arg in enumerate(function.signature.input_arg)}
        for node in body.node:
            if node.name in arguments:
                self.aliases[f"{call.name}/{node.name}:0"] = arguments[node.name]
            else:
                self.emit(_prefixed(node, call, arguments, start))
        for k, output in enumerate(function.signature.output_arg):
            self.aliases[f"{call.name}:{k}"] = f"{call.name}/{tensor_names[function.ret[output.name]]}"
        finished = sorted(f"^{call.name}/{name}" for name in function.control_ret.values())
        self.flat.node.add(name=call.name, op="NoOp", device=call.device, input=finished or start)

    def _emit_identity(self, node: Any) -> None:
        """Replace each output by its input: one node must not tie unrelated gradients together."""
        data = [tensor for tensor in node.input if not tensor.startswith("^")]
        for k, tensor in enumerate(data):
            self.aliases[f"{node.name}:{k}"] = tensor
        self.identities[node.name] = data
        if "_gradient_op_type" in node.attr:
            self.own_gradients.append(node.name)
        control = [tensor for tensor in node.input if tensor.startswith("^")]
        self.flat.node.add(name=node.name, op="NoOp", device=node.device, input=control)

    def _note_own_gradients(self) -> None:
        """Note on results of functions with gradients of their own what these may flow to.

        Such a function ends in an ``IdentityN`` of its results and its arguments; only the results are used behind it.
        """
        found: dict[str, str] = {}
        for name in self.own_gradients:
            sources = [node_of(self._resolve(tensor)) for tensor in self.identities[name]]
            results = [source for k, source in enumerate(sources) if f"{name}:{k}" in self.used]
            found |= dict.fromkeys(results, ",".join(sorted(set(sources))))
        for node in self.flat.node if found else ():
            if node.name in found:
                node.attr[OWN_GRADIENT].s = found[node.name].encode()

    def _emit_start(self, call: Any) -> list[str]:
        """The nodes that the body's stateful nodes wait for: the control inputs of the call."""
        control = [tensor for tensor in call.input if tensor.startswith("^")]
        if not control:
            return []
        start = self.flat.node.add(name=f"{call.name}/_start", op="NoOp", device=call.device, input=control)
        return [f"^{start.name}"]

    def _body(self, function: Any) -> tuple[Any, dict[str, str]]:
        from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

        name = function.signature.name
        if name not in self.bodies:
            self.bodies[name] = function_def_to_graph_def(function)
        return self.bodies[name]

    def _resolve(self, tensor: str) -> str:
        if tensor.startswith("^"):
            return tensor
        tensor = full_name(tensor)
        while tensor in self.aliases:
            self.used.add(tensor)
            tensor = full_name(self.aliases[tensor])
        return tensor


def _prefixed(node: Any, call: Any, arguments: dict[str, str], start: list[str]) -> Any:
    """A body's node under the call's name."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = f"{call.name}/{node.name}"
    copy.device = node.device or call.device
    inputs = [_prefixed_input(t, call.name) for t in node.input if not (t.startswith("^") and t[1:] in arguments)]
    del copy.input[:]
    copy.input.extend(inputs + (start if is_stateful(node.op) else []))
    if "_class" in copy.attr:
        constraints = copy.attr["_class"].list.s
        constraints[:] = [f"loc:@{call.name}/{c.decode().removeprefix('loc:@')}".encode() for c in constraints]
    return copy


def _prefixed_input(tensor: str, call: str) -> str:
    return f"^{call}/{tensor[1:]}" if tensor.startswith("^") else f"{call}/{tensor}"
