"""Seeds: which random numbers a replica gets.

What has a row per example is drawn by each replica for its own examples, from a sequence of its own; the first of all
replicas draws the numbers of a single device. What is drawn once for the whole batch (a scale, the negatives of a
sampled softmax) is the same on all replicas. Either way a seed gives the same numbers in every run.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

from autodist.graph import LOOPS, NodeList, called_functions, output_shape
from autodist.graph.operators import meaning

_SPREAD = 0x9E3779B97F4A7C15
"""A stride that keeps a replica's sequences apart from those of the next seeds, since programs number their seeds."""


class ReplicaSeeds:
    """Changes copies of random ops, and of nodes that call functions with such ops.

    Args:
        out: Where to add nodes.
        library: The graph's functions; changed ones are added.
    """

    def __init__(self, out: NodeList, library: Any) -> None:
        self._out = out
        self._library = library
        self._functions = {function.signature.name: function for function in library.function}

    def seed(self, copy: Any) -> None:
        """Have a node that would draw other numbers in every process draw the same ones in all."""
        self.vary(copy, [], 0, by_row=False)

    def vary(self, copy: Any, inputs: list[str], replica: int, *, by_row: bool) -> None:
        """Have a replica's copy of a node draw that replica's numbers.

        Args:
            copy: The node; its attributes may change.
            inputs: Its inputs; one may be replaced.
            replica: The number among all replicas.
            by_row: Whether the node gives a row per example.
        """
        _seed_by_name(copy, copy.name)
        position = _seed_input(copy.op)
        if replica and by_row and position is not None:
            dtype = _seed_dtype(copy)
            offset = self._out.constant(f"{copy.name}/replica", _offset(replica, dtype), dtype)
            seed = self._out.add("AddV2", f"{copy.name}/seed", [inputs[position], offset], T=dtype)
            inputs[position] = seed
        elif replica and by_row:
            _move_attributes(copy, replica)
        self._specialize(copy, copy.name, replica, copy.op in LOOPS)

    # Functions ---------------------------------------------------------------------------------------------------

    def _specialize(self, node: Any, path: str, replica: int, in_loop: bool) -> None:
        """Have a node call functions that draw a replica's numbers."""
        for called in called_functions(node):
            if self._is_to_change(called.name, replica):
                called.name = self._specialized(called.name, path, replica, in_loop)

    def _specialized(self, name: str, path: str, replica: int, in_loop: bool) -> str:
        new_name = f"{name}__{zlib.crc32(path.encode()):08x}_{replica}"
        if new_name not in self._functions:
            function = self._library.function.add()
            function.CopyFrom(self._functions[name])
            function.signature.name = new_name
            self._functions[new_name] = function
            self._change(function, path, replica, in_loop)
        return new_name

    def _change(self, function: Any, path: str, replica: int, in_loop: bool) -> None:
        added = NodeList()
        for node in function.node_def:
            _seed_by_name(node, f"{path}/{node.name}")
            if replica and (in_loop or _has_unknown_dims(node)):
                _vary_in_function(node, added, replica)
            self._specialize(node, f"{path}/{node.name}", replica, in_loop or node.op in LOOPS)
        function.node_def.extend(added.nodes)

    def _is_to_change(self, name: str, replica: int) -> bool:
        """Whether a function, or one that it calls, draws by replica, or has no seed."""
        nodes = self._functions[name].node_def
        if any(_is_unseeded(n) or (replica and (_seed_input(n.op) is not None or _is_seeded(n))) for n in nodes):
            return True
        return any(self._is_to_change(called.name, replica) for node in nodes for called in called_functions(node))


def _vary_in_function(node: Any, added: NodeList, replica: int) -> None:
    position = _seed_input(node.op)
    if position is None:
        _move_attributes(node, replica)
        return
    dtype = _seed_dtype(node)
    added.device = node.device
    offset = added.constant(f"{node.name}/replica", _offset(replica, dtype), dtype)
    seed = added.add("AddV2", f"{node.name}/seed", [node.input[position], f"{offset}:output:0"], T=dtype)
    node.input[position] = f"{seed}:z:0"


def _has_unknown_dims(node: Any) -> bool:
    shape = output_shape(node)
    return shape is None or None in shape


# Random ops ----------------------------------------------------------------------------------------------------------


@functools.cache
def _seed_input(op: str) -> int | None:
    """Position of the input that says where a stateless random op begins, None for all others."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(op) if op.startswith("Stateless") else None
    names = [argument.name for argument in definition.input_arg] if definition is not None else []
    if op.startswith("StatelessRandomGet"):  # makes a key, but draws nothing
        return None
    return next((names.index(name) for name in ("key", "seed") if name in names), None)


def _seed_dtype(node: Any) -> str:
    import tensorflow as tf

    return tf.as_dtype(node.attr["Tseed"].type).name if "Tseed" in node.attr else "uint64"


def _offset(replica: int, dtype: str) -> int:
    """The offset of a replica's seeds from those of the first one, within the range of a dtype."""
    bits = 64 if dtype.endswith("64") else 32
    spread = replica * (_SPREAD >> (64 - bits)) % (1 << bits)
    return spread if dtype.startswith("u") or spread < 1 << (bits - 1) else spread - (1 << bits)


def _is_seeded(node: Any) -> bool:
    return "seed" in node.attr and "seed2" in node.attr


def _is_unseeded(node: Any) -> bool:
    """Whether an op draws other numbers in each process."""
    return _is_seeded(node) and not node.attr["seed"].i and not node.attr["seed2"].i


def _seed_by_name(node: Any, name: str) -> None:
    if _is_unseeded(node):
        node.attr["seed2"].i = 1 + zlib.crc32(name.encode())


def _move_attributes(node: Any, replica: int) -> None:
    if _is_seeded(node) and not meaning(node.op).draws_once:
        node.attr["seed2"].i = (node.attr["seed2"].i + _offset(replica, "int64")) % (1 << 63)
