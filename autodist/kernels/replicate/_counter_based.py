"""Has a replica draw the random numbers that one device draws for the replica's rows, where a counter is used.

The kernel makes a group of elements for each value of the counter, in order. So the counter skips the groups of the
rows before, and numbers that are still drawn for these are cut off.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any, Protocol

from autodist.graph import NodeList, StepAnalysis, node_of, tensor_dtype
from autodist.graph.batch import Batch
from autodist.graph.operators import meaning

_SHAPE, _COUNTER = 0, 2
"""Inputs of ``StatelessRandomUniformV2`` and ``StatelessRandomNormalV2``."""
_GROUP = {"float64": 2}
"""Elements for each value of the counter, by dtype; 4 for all others."""


def elements_of_rows(analysis: StepAnalysis, name: str) -> int | None:
    """How many random numbers a node draws for each example; None if a replica can't draw those of its own examples.

    It can if they are drawn by a counter, which is the same for all, and the examples lie one after the other.
    """
    node = analysis.nodes[name]
    if not meaning(node.op).draws_in_order or any(node_of(tensor) in analysis.scalings for tensor in node.input[1:]):
        return None
    first, *others = analysis.dependence.entries(node.input[_SHAPE]) or (None,)
    sizes = [size for size in others if isinstance(size, int)]
    return prod(sizes) if first == Batch(Fraction(1)) and len(sizes) == len(others) else None


class Starts(Protocol):
    """Where rows begin in the batch."""

    def first(self, replica: int) -> str:
        """The first row of a local replica, as a scalar."""


class CounterBasedRandom:
    """Changes copies of random operators.

    Args:
        nodes: The flat step, by name.
        out: Where to add nodes.
        rows: Where each replica's rows begin.
    """

    def __init__(self, nodes: dict[str, Any], out: NodeList, rows: Starts) -> None:
        self._nodes = nodes
        self._out = out
        self._rows = rows

    def own(self, node: Any, copy: Any, replica: int, each: int) -> str:
        """Have a replica's copy of a node draw for its rows alone.

        Args:
            node: The node of the step.
            copy: The copy, whose inputs are those of the replica: it is given the shape of the replica's rows.
            replica: The number of the local replica.
            each: How many numbers are drawn for each row.

        Returns:
            The tensor with the numbers of the replica's rows.
        """
        name, dtype = str(copy.name), tensor_dtype(self._nodes, node.name)
        group = _GROUP.get(dtype, 4)
        first = self._out.cast(f"{name}/first", self._rows.first(replica), "int32", "int64")
        before = self._by(f"{name}/before", "Mul", first, each, "int64")
        groups = self._by(f"{name}/groups", "FloorDiv", before, group, "int64")
        copy.input[_COUNTER] = self._moved(f"{name}/counter", copy.input[_COUNTER], groups)
        if each % group == 0:
            return name
        local, kind = copy.input[_SHAPE], tensor_dtype(self._nodes, node.input[_SHAPE])
        length = self._length(f"{name}/length", local, kind)
        rest = self._by(f"{name}/rest", "FloorMod", before, group, "int64")
        rest = self._out.cast(f"{name}/rest/int", rest, "int64", "int32")
        more = self._by(f"{name}/more", "AddV2", length, group, "int32")
        copy.input[_SHAPE] = self._out.reshape(f"{name}/flat", more, [1], "int32")
        copy.attr["Tshape"].type = 3  # int32
        copy.attr.pop("_output_shapes", None)
        begin = self._out.reshape(f"{name}/at", rest, [1], "int32")
        size = self._out.reshape(f"{name}/n", length, [1], "int32")
        kinds: dict[str, Any] = {"T": dtype, "device": copy.device}
        own = self._out.add("Slice", f"{name}/own", [name, begin, size], Index="int32", **kinds)
        return self._out.add("Reshape", f"{name}/rows", [own, local], Tshape=kind, **kinds)

    def _length(self, name: str, shape: str, kind: str) -> str:
        """How many elements there are; a replica that only borrows a row has another number of these than of rows."""
        whole = shape if kind == "int32" else self._out.cast(f"{name}/shape", shape, kind, "int32")
        dim = self._out.constant(f"{name}/dim", [0], "int32")
        return self._out.add("Prod", name, [whole, dim], T="int32", Tidx="int32", keep_dims=False)

    def _by(self, name: str, op: str, number: str, other: int, dtype: str) -> str:
        constant = self._out.constant(f"{name}/by", other, dtype)
        return self._out.add(op, name, [number, constant], T=dtype)

    def _moved(self, name: str, counter: str, groups: str) -> str:
        """A counter of two words, the low one first, advanced by a number of values."""
        by = self._out.cast(f"{name}/by", groups, "int64", "uint64")
        words = self._out.add("Unpack", f"{name}/words", [counter], num=2, T="uint64", axis=0)
        low = self._out.add("AddV2", f"{name}/low", [words, by], T="uint64")
        is_over = self._out.add("Less", f"{name}/is_over", [low, by], T="uint64")
        over = self._out.cast(f"{name}/over", is_over, "bool", "uint64")
        high = self._out.add("AddV2", f"{name}/high", [f"{words}:1", over], T="uint64")
        return self._out.add("Pack", name, [low, high], N=2, T="uint64", axis=0)
