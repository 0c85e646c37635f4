"""Whole numbers of a rewriting that are lengths, or computed from lengths: a step computes them where they differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from autodist.graph import NodeList, constant_value, tensor_dtype

_Numbers: TypeAlias = tuple[list[int], dict[tuple[int, ...], list[int]]]
_MOST_FACTORS = 3
_TOO_LARGE = 2**30
"""Numbers are computed as 32-bit integers."""


@dataclass(frozen=True)
class Length:
    """A length of a step's arguments.

    Attributes:
        sizes: How long it is in each of the rewritings.
        places: The arguments and their dims that have it.
    """

    sizes: tuple[int, ...]
    places: tuple[tuple[str, int], ...]


class LengthNumbers:
    """Computes numbers of a step from the lengths of its arguments.

    Args:
        lengths: The lengths.
        nodes: The nodes of a rewriting by name.

    Attributes:
        added: The nodes that compute the lengths.
    """

    def __init__(self, lengths: Sequence[Length], nodes: dict[str, Any]) -> None:
        self._lengths = lengths
        self._nodes = nodes
        self.added = NodeList()
        self._made: dict[tuple[int, ...], str] = {}

    def replace(self, constants: Sequence[Any]) -> bool:
        """Have a constant, which is changed, be computed as it is in all rewritings; return whether that is possible.

        Args:
            constants: The constant in each of the rewritings.
        """
        values = [constant_value(node) for node in constants]
        first = values[0]
        if any(value.size == 0 for value in values):
            return all(value.size == 0 and value.dtype == first.dtype for value in values)  # nothing is computed of it
        is_whole = all(value.shape == first.shape and (value == value.astype("int64")).all() for value in values)
        if first.dtype.kind not in "if" or not is_whole:
            return False
        found = self._fitted([value.astype("int64").reshape(-1).tolist() for value in values])
        if found is None or not all(map(self._is_found, itertools.chain(*found[1]))):
            return False
        self._compute(constants[0], found, first)
        return True

    def _fitted(self, values: Sequence[Sequence[int]]) -> _Numbers | None:
        """Entries as numbers, and factors of products of lengths; None if they are nothing of the kind."""
        if any(abs(entry) >= _TOO_LARGE for entries in values for entry in entries):
            return None
        numbers = list(values[0])
        factors: dict[tuple[int, ...], list[int]] = {}
        for place, entries in enumerate(zip(*values, strict=True)):
            if len(set(entries)) == 1:
                continue
            fit = next((fit for product in self._products() if (fit := self._fit(product, entries)) is not None), None)
            if fit is None:
                return None
            product, factor, numbers[place] = fit
            factors.setdefault(product, [0] * len(numbers))[place] = factor
        return numbers, factors

    def _products(self) -> Iterator[tuple[int, ...]]:
        for count in range(1, _MOST_FACTORS + 1):
            yield from itertools.combinations_with_replacement(range(len(self._lengths)), count)

    def _fit(self, product: tuple[int, ...], entries: Sequence[int]) -> tuple[tuple[int, ...], int, int] | None:
        """The factor of a product of lengths, and what is added to it; None if entries aren't that everywhere."""
        bases = [prod(self._lengths[k].sizes[number] for k in product) for number in range(len(entries))]
        factor = entries[0] // bases[0]
        if len(entries) > 2 and any(factor * base != entry for base, entry in zip(bases, entries, strict=True)):
            factor = (entries[1] - entries[0]) // (bases[1] - bases[0])
        rest = entries[0] - factor * bases[0]
        is_fit = all(factor * base + rest == entry for base, entry in zip(bases, entries, strict=True))
        return (product, factor, rest) if is_fit and (rest == 0 or len(entries) > 2) else None

    def _is_found(self, length: int) -> bool:
        return any(self._sources(length))

    def _sources(self, length: int) -> Iterator[tuple[str, int]]:
        """The tensors of this worker that have a length, and their dims that have it."""
        for name, dim in self._lengths[length].places:
            yield from ((tensor, dim) for tensor in (f"replica_0/{name}", name) if tensor in self._nodes)

    def _compute(self, node: Any, found: _Numbers, like: np.ndarray) -> None:
        """Make a constant the sum of numbers and of multiples of products of lengths."""
        numbers, factors = found
        name, self.added.device = node.name, node.device
        terms = [self.added.constant(f"{name}/number", np.reshape(numbers, like.shape), "int32")]
        for product, factor in factors.items():
            label = f"{name}/{'_'.join(map(str, product))}"
            times = self.added.constant(f"{label}/factor", np.reshape(factor, like.shape), "int32")
            terms.append(self.added.add("Mul", label, [times, self._product(product)], T="int32"))
        waits = list(node.input)
        total = self.added.sum(f"{name}/int32", terms, "int32")
        self.added.add("Cast", name, [total, *waits], SrcT="int32", DstT=like.dtype.name)
        node.CopyFrom(self.added.nodes.pop())

    def _product(self, product: tuple[int, ...]) -> str:
        if product not in self._made:
            label = f"autodist/length_{'_'.join(map(str, product))}"
            if len(product) == 1:
                self._made[product] = self._read(label, *next(self._sources(product[0])))
            else:
                inputs = [self._product(product[:1]), self._product(product[1:])]
                self._made[product] = self.added.add("Mul", label, inputs, T="int32")
        return self._made[product]

    def _read(self, label: str, tensor: str, dim: int) -> str:
        """A dim of a tensor as a scalar; it is where the tensor is, whose rows need not be moved."""
        device, self.added.device = self.added.device, self._nodes[tensor].device
        kind = tensor_dtype(self._nodes, tensor)
        sizes = self.added.add("Shape", f"{label}/sizes", [tensor], T=kind, out_type="int32")
        begin, end, stride = (
            self.added.constant(f"{label}/{what}", [k], "int32")
            for what, k in (("begin", dim), ("end", dim + 1), ("stride", 1))
        )
        inputs = [sizes, begin, end, stride]
        found = self.added.add("StridedSlice", label, inputs, T="int32", Index="int32", shrink_axis_mask=1)
        self.added.device = device
        return found
