"""The identity of G: hashes of all that a plan, a trial or a profile of it could depend on.

A node is known by its type, its attributes and what it is computed from, not by its name, and so are the functions of
control flow: names carry counters, which differ from process to process. Two variables or inputs are told apart by
their place in G.

The values of constants count. They say how often a loop turns and which rows of a table are looked up; and workers
whose constants differ train different models. So does a script that draws constants without a seed, in two runs:
trials of the first are not found in the second. The seeds of random operations don't count, they change neither what
is computed nor how long that takes, and each run draws its own.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from autodist.graph._graph_def import COMPILED, FROZEN, OWN_GRADIENT, called_functions, node_of, topological_order

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph
    from autodist.graph._variables import Variable

SCHEME = 2
"""How the hashes are made: those of another scheme can't be compared with ours."""

_VOLATILE = frozenset({
    "_class", "_forward_func_name", "_backward_func_name", "_gradient_op_type", "_user_specified_name",
    "container", "resource_arg_unique_id", "seed", "seed2", "shared_name", "token", COMPILED, FROZEN,
    OWN_GRADIENT,
})  # fmt: skip
"""Attributes that hold names with counters, seeds, or values, which are hashed separately."""


@dataclass(frozen=True)
class Identity:
    """The parts of a graph's identity.

    Attributes:
        step: A hash of all of it, whatever the batch's size is.
        variables: Hash of its variables, to tell in what two graphs differ.
        operations: Hash of the operations, likewise.
    """

    step: str
    variables: str
    operations: str

    @classmethod
    def of(cls, graph: TrainingGraph) -> Identity:
        """The identity of a graph; takes some 10 us per node, once."""
        variables = combined(map(_row, graph.variables))
        if graph.graph_def is None:
            ends = combined(repr(part).encode() for part in (graph.inputs, graph.outputs, graph.effects))
            return cls(combined([variables.encode(), ends.encode()]), variables, "")
        contents = _Contents(graph.graph_def.library).of_nodes(graph.graph_def.node)
        kinds = Counter(kind for (kind, _), _ in contents.values())
        operations = combined([repr(sorted(kinds.items())).encode()])
        return cls(combined([variables.encode(), *_computed(graph, contents)]), variables, operations)

    def difference(self, other: Identity) -> str | None:
        """A word for the part in which another identity differs; None if it does not."""
        if self.step == other.step:
            return None
        if self.variables != other.variables:
            return "variables"
        return "operations" if self.operations != other.operations else "constants"


def combined(parts: Iterable[bytes]) -> str:
    """One hash of several texts."""
    return _digest(b"".join(b"%d:" % len(part) + part for part in parts)).hex()


def _row(variable: Variable) -> bytes:
    row = dict(vars(variable))
    for name in ("handle", "content"):
        del row[name]
    return repr(row | {"gradients": [gradient.is_sparse for gradient in variable.gradients]}).encode()


def _computed(graph: TrainingGraph, contents: Mapping[str, _Content]) -> Iterator[bytes]:
    """The computation, and which parts of it are returned, or are gradients."""
    given = {v.handle: _digest(f"variable {k} {v.content}".encode()) for k, v in enumerate(graph.variables)}
    given |= {node_of(argument.tensor): _digest(b"input %d" % k) for k, argument in enumerate(graph.inputs)}
    hashes = _hashes(graph.analysis.order, contents, given)
    gradients = [[hashes[node_of(t)] for t in v.gradient_tensors] for v in graph.variables]
    inputs = [(a.split, a.shape, a.dtype, *([a.tiles] if a.tiles else [])) for a in graph.inputs]
    outputs = [(_hash_of(output.tensor, hashes), output.shape, output.dtype) for output in graph.outputs]
    effects = sorted(hashes[node] for node in graph.effects)
    yield from (repr(part).encode() for part in (gradients, inputs, outputs, effects))
    yield b"".join(sorted(hashes.values()))  # their order does not count


_Kind = tuple[bytes, bytes]
"""A hash of a node's type and attributes, and one of its value if it is a constant."""
_Content = tuple[_Kind, Sequence[str]]
"""A node without its name, and the nodes that it is computed from."""


def _hashes(order: Iterable[str], contents: Mapping[str, _Content], given: Mapping[str, bytes]) -> dict[str, bytes]:
    """By node, a hash of it and of all that it is computed from."""
    found = dict(given)
    for name in order:
        if name in given:
            continue
        kind, inputs = contents[name]
        try:
            parts = [*kind, *[found[tensor] for tensor in inputs]]
        except KeyError:
            parts = [*kind, *_parts(inputs, found)]
        found[name] = blake2b(b"|".join(parts), digest_size=16).digest()
    return found


def _parts(inputs: Sequence[str], found: Mapping[str, bytes]) -> list[bytes]:
    """The hashes of inputs; in what order a node waits for others does not count."""
    waits = sorted(_hash_of(tensor, found) for tensor in inputs if tensor[0] == "^")
    return [*(_hash_of(tensor, found) for tensor in inputs if tensor[0] != "^"), b"^", *waits]


def _hash_of(tensor: str, hashes: Mapping[str, bytes]) -> bytes:
    """A hash of a tensor; one without a hash yet comes from the back edge of a loop."""
    if tensor in hashes:
        return hashes[tensor]
    name, colon, output = tensor.removeprefix("^").partition(":")
    known = hashes.get(name, b"loop")
    return known + output.encode() if colon and output != "0" else known


class _Contents:
    """The contents of nodes; a function is identified by its content, not by its name."""

    def __init__(self, library: Any) -> None:
        self._functions = {function.signature.name: function for function in library.function}
        self._kinds: dict[bytes, bytes] = {}
        """By type and attributes, their hash: most nodes of a graph are like others."""

    def of_nodes(self, nodes: Iterable[Any]) -> dict[str, _Content]:
        """By name, what nodes are."""
        return {node.name: (self._kind(node), tuple(node.input)) for node in nodes}

    def _kind(self, node: Any) -> _Kind:
        if node.op == "Const":
            value = node.attr["value"].tensor
            kind = b"Const %d " % value.dtype + value.tensor_shape.SerializeToString(deterministic=True)
            return kind, _digest(value.SerializeToString(deterministic=True))
        bare = type(node)()
        bare.CopyFrom(node)
        for field in ("name", "input", "experimental_debug_info"):
            bare.ClearField(field)
        content = bare.SerializeToString(deterministic=True)
        if content not in self._kinds:
            self._kinds[content] = self._hash_of_kind(bare)
        return self._kinds[content], b""

    def _hash_of_kind(self, bare: Any) -> bytes:
        for name in _VOLATILE & bare.attr.keys():
            del bare.attr[name]
        if _calls_functions(bare.op):
            for called in called_functions(bare):
                called.name = self._function(called.name)
        return _digest(bare.SerializeToString(deterministic=True))

    @functools.cache  # noqa: B019  # lives as long as one identity is made
    def _function(self, name: str) -> str:
        """A hash of what a function does."""
        function = self._functions.get(name)
        if function is None:
            return ""  # the gradient of another one: nothing that runs calls it
        signature = function.signature
        given = {argument.name: b"argument %d" % k for k, argument in enumerate(signature.input_arg)}
        nodes = {node.name: node for node in function.node_def}
        hashes = _hashes(topological_order(nodes), self.of_nodes(function.node_def), given)
        types = [(argument.type, argument.type_list_attr) for argument in (*signature.input_arg, *signature.output_arg)]
        results = [_hash_of(function.ret[output.name], hashes) for output in signature.output_arg]
        waits = sorted(hashes[node] for node in function.control_ret.values())
        return combined([repr(types).encode(), *results, b"", *waits, b"", *sorted(hashes.values())])


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


@functools.cache
def _calls_functions(op: str) -> bool:
    """Whether operations of a type may have attributes that name functions."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(op)
    return definition is None or any(attribute.type in ("func", "list(func)") for attribute in definition.attr)
