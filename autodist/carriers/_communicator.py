"""The contract of communicators, which add the nodes of a carrier's collectives to a graph."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from autodist.carriers._scatter import Passed, Scattered, rows_of

if TYPE_CHECKING:
    from autodist.carriers._base import CollectivePlace
    from autodist.graph import NodeList

JOINED_BYTES = 4 << 10
"""The size up to which a tensor costs more as a message of its own than by waiting for others, where not all join."""


class Communicator(abc.ABC):
    """Adds the nodes of collectives to a graph. All workers add the same collectives under the same names.

    Attributes:
        joins_all: Whether all tensors, even large ones, are faster in one buffer than each in its own.
    """

    joins_all: ClassVar[bool] = True

    @abc.abstractmethod
    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """The sum over all workers of a tensor whose shape is the same on all of them."""

    def all_reduce_varying(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """As :meth:`all_reduce`, for a tensor whose shape differs between steps, such as one with a row per example."""
        return self.all_reduce(nodes, name, tensor, dtype)

    def spread(self, nodes: NodeList, sizes: Mapping[str, int]) -> None:
        """Distribute the sums of some added all-reduces evenly over the workers, given their bytes by name.

        Only communicators that don't join all need it: the others have one buffer.
        """
        assert self.joins_all, self

    @abc.abstractmethod
    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """The concatenation, in rank order, along dim 0; the workers' tensors may differ in dim 0."""

    def all_gather_rows(
        self, nodes: NodeList, names: Sequence[str], tensors: Sequence[str], dtypes: Sequence[str]
    ) -> list[str]:
        """As :meth:`all_gather`, for several tensors that have the same number of rows on a worker."""
        each = zip(names, tensors, dtypes, strict=True)
        return [self.all_gather(nodes, name, tensor, dtype) for name, tensor, dtype in each]

    def all_gather_even(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """As :meth:`all_gather`, for tensors whose shape is the same on all workers."""
        return self.all_gather(nodes, name, tensor, dtype)

    def reduce_scatter(
        self, nodes: NodeList, name: str, scattered: Scattered, own: str, dtype: str, place: CollectivePlace
    ) -> str:
        """This worker's rows of a sum over all workers; by default each worker gets the whole sum and slices it.

        Args:
            nodes: Where to add nodes.
            name: Prefix of their names, the same on all workers.
            scattered: The terms of the sum.
            own: This worker's rows of its own part.
            dtype: The element type.
            place: Which worker this is.
        """
        total = self.all_reduce_varying(nodes, name, scattered.tensor, dtype)
        return rows_of(nodes, f"{name}/rows", scattered, place.index, dtype, total)

    def pass_rows(
        self, nodes: NodeList, name: str, passed: Passed, dtype: str, place: CollectivePlace
    ) -> tuple[list[str], list[str]]:
        """The rows that others pass to this worker; by default all workers get all rows.

        Args:
            nodes: Where to add nodes.
            name: Prefix of their names, the same on all workers.
            passed: Who passes how many rows to whom.
            dtype: The element type.
            place: Which worker this is.

        Returns:
            The nodes that have to run even if this worker is given nothing, and what it is given by each other one.
        """
        gathered = self.all_gather(
            nodes, name, nodes.concat(f"{name}/given", passed.rows or [passed.none], dtype), dtype
        )
        sizes = passed.sizes or nodes.constant(f"{name}/sizes", [n for row in passed.counts for n in row], "int32")
        axis = nodes.constant(f"{name}/axis", 0, "int32")
        ends = nodes.add("Cumsum", f"{name}/ends", [sizes, axis], T="int32", Tidx="int32")
        firsts = nodes.add("Sub", f"{name}/firsts", [ends, sizes], T="int32")
        found = []
        for source in passed.by(place.index):
            label, pair = f"{name}/from_{source}", source * len(passed.counts) + place.index
            at, one = (nodes.constant(f"{label}/{what}", [n], "int32") for what, n in (("at", pair), ("one", 1)))
            bounds = [
                nodes.add("Slice", f"{label}/{what}", [vector, at, one], T="int32", Index="int32")
                for what, vector in (("begin", firsts), ("end", ends))
            ]
            stride = nodes.constant(f"{label}/stride", [1], "int32")
            kinds = {"T": dtype, "Index": "int32"}
            found.append(nodes.add("StridedSlice", label, [gathered, *bounds, stride], **kinds))
        return [gathered], found
