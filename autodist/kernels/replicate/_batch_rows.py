"""Where the rows of each replica lie in the batch, as nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from autodist.graph import NodeList
from autodist.graph.layouts import Entry, Multiple, Rows, StepShapes, factor_of
from autodist.kernels._base import Layout


class FirstRows:
    """Where the rows of each replica begin.

    Args:
        out: Where to add nodes.
        layout: This worker among all.
        counts: The numbers of rows of all replicas of all workers, in their order.
        name: What the names of the nodes begin with.
        prefix: What the names of the nodes of local replicas' first rows begin with.

    Attributes:
        firsts: The first row of each replica of all workers.
        ends: One past the last row of each replica of all workers.
    """

    def __init__(self, out: NodeList, layout: Layout, counts: str, name: str, prefix: str = "autodist") -> None:
        whole = out.cast(f"{name}/counts/int", counts, "float32", "int32")
        behind = out.constant(f"{name}/counts/axis", 0, "int32")
        self.ends = out.add("Cumsum", f"{name}/counts/ends", [whole, behind], T="int32", Tidx="int32")
        self.firsts = out.add("Sub", f"{name}/counts/firsts", [self.ends, whole], T="int32")
        before = sum(len(layout.copies(rank)) for rank in range(layout.rank))
        count = len(layout.local_replicas)
        self._first = [entry_of(out, f"{prefix}/first_{r}", self.firsts, before + r) for r in range(count)]

    def first(self, replica: int) -> str:
        """The first row of a local replica."""
        return self._first[replica]


def entry_of(out: NodeList, name: str, vector: str, at: int) -> str:
    """An entry of a vector of whole numbers, as a scalar."""
    begin = out.constant(f"{name}/begin", [at], "int32")
    size = out.constant(f"{name}/size", [1], "int32")
    entry = out.add("Slice", f"{name}/entry", [vector, begin, size], T="int32", Index="int32")
    return out.reshape(name, entry, [], "int32")


class BatchRows:
    """Adds nodes for the numbers of rows of the batch, of each replica, and before each replica's rows.

    Args:
        out: Where to add nodes.
        layout: This worker among all.
        rows: The placeholder for the numbers of rows of the local replicas.
        counts: The numbers of all replicas of all workers, in their order.
        total: Name for the size of the batch, which may be fed.
    """

    def __init__(self, out: NodeList, layout: Layout, rows: str, counts: str, total: str) -> None:
        self._out = out
        self._layout = layout
        self._count = len(layout.local_replicas)
        dim = out.constant(f"{total}/dim", [0], "int32")
        everywhere = out.add("Sum", f"{total}/sum", [counts, dim], T="float32", Tidx="int32", keep_dims=False)
        self.total = out.add("PlaceholderWithDefault", total, [everywhere], dtype="float32", shape=[])
        self._total = out.cast(f"{total}/int", self.total, "float32", "int32")
        self.starts = FirstRows(out, layout, counts, total)
        own = out.cast(f"{rows}/int", rows, "float32", "int32")
        self._own = [entry_of(out, f"autodist/own_{r}", own, r) for r in range(self._count)]
        self._made: dict[tuple[object, ...], str] = {}
        self._scaled_before: set[str] = set()

    @cached_property
    def by_worker(self) -> tuple[str, str]:
        """The first row of each worker, and how many rows it has."""
        name, bounds = "autodist/by_worker", [0]
        for rank in range(self._layout.world_size):
            bounds.append(bounds[-1] + len(self._layout.copies(rank)))
        begins = self._out.constant(f"{name}/begins", bounds[:-1], "int32")
        lasts = self._out.constant(f"{name}/lasts", [bound - 1 for bound in bounds[1:]], "int32")
        axis = self._out.constant(f"{name}/axis", 0, "int32")
        kinds: dict[str, Any] = {"Tparams": "int32", "Tindices": "int32", "Taxis": "int32", "batch_dims": 0}
        firsts = self._out.add("GatherV2", f"{name}/firsts", [self.starts.firsts, begins, axis], **kinds)
        ends = self._out.add("GatherV2", f"{name}/ends", [self.starts.ends, lasts, axis], **kinds)
        return firsts, self._out.add("Sub", f"{name}/counts", [ends, firsts], T="int32")

    def times(self, vector: str, by: int) -> str:
        """A vector, times a number."""
        return self._scaled(f"{vector}/times_{by}", vector, by) if by != 1 else vector

    def first(self, replica: int) -> str:
        """The first row of a replica."""
        return self.starts.first(replica)

    def own(self, replica: int) -> str:
        """How many rows a replica has."""
        return self._own[replica]

    def count(self, factor: float, power: int, dtype: str) -> str:
        """A factor times a power of the batch size, as a scalar of a dtype."""
        key = ("count", factor, power, dtype)
        if key not in self._made:
            name = f"autodist/elements_{len(self._made)}"
            total = self._out.cast(f"{name}/total", self.total, "float32", dtype)
            found = self._out.constant(f"{name}/factor", factor, dtype)
            for k in range(power):
                found = self._out.add("Mul", f"{name}/power_{k}", [found, total], T=dtype)
            self._made[key] = found
        return self._made[key]

    def elements(self, given: str, made: str, dtype: str, shapes: StepShapes) -> str:
        """How many elements of a tensor go into one element of the whole batch's result; a scalar of a dtype."""
        sizes = shapes.shape(given) or (), shapes.shape(made) or ()
        powers = [sum(isinstance(size, Multiple) for size in shape) for shape in sizes]  # dims that grow with the batch
        return self.count(factor_of(sizes[0]) / factor_of(sizes[1]), powers[0] - powers[1], dtype)

    def share(self, replica: int, dtype: str) -> str:
        """A replica's share of the rows, as a scalar of a dtype."""
        key = ("share", replica, dtype)
        if key not in self._made:
            name = f"autodist/share_{replica}/{dtype}"
            own = self._out.cast(f"{name}/own", self._own[replica], "int32", dtype)
            total = self._out.cast(f"{name}/total", self.total, "float32", dtype)
            self._made[key] = self._out.add("RealDiv", name, [own, total], T=dtype)
        return self._made[key]

    def entries(self, entries: Sequence[Entry], replica: int | None, dtype: str) -> str:
        """A vector of lengths as a replica has them; None for a vector without lengths of its own rows."""
        if not any(isinstance(entry, Rows) for entry in entries):
            replica = None
        key = ("entries", tuple(entries), replica, dtype)
        if key not in self._made:
            self._made[key] = self._vector(f"autodist/lengths_{len(self._made)}", entries, replica, dtype)
        return self._made[key]

    def _vector(self, name: str, entries: Sequence[Entry], replica: int | None, dtype: str) -> str:
        terms = [self._out.constant(f"{name}/fixed", [e if isinstance(e, int) else 0 for e in entries], "int32")]
        parts: list[tuple[type, str | None]] = [
            (Multiple, self._total),
            (Rows, None if replica is None else self._own[replica]),
        ]
        for kind, number in parts:
            times = [e.times if isinstance(e, kind) else 0 for e in entries]  # type: ignore[union-attr]
            if any(times) and number is not None:
                factors = self._out.constant(f"{name}/{kind.__name__}", times, "int32")
                terms.append(self._out.add("Mul", f"{name}/{kind.__name__}/times", [factors, number], T="int32"))
        found = self._out.sum(f"{name}/int32", terms, "int32")
        return self._out.cast(name, found, "int32", dtype)

    def places(self, outer: int, inner: int, replica: int) -> str:
        """The places of a replica's elements along a dim that has the batch `outer` times, `inner` elements a row."""
        key = ("places", outer, inner, replica)
        if key not in self._made:
            name = f"autodist/places_{len(self._made)}"
            zero, one = (self._out.constant(f"{name}/{n}", n, "int32") for n in (0, 1))
            each = self._scaled(f"{name}/length", self._own[replica], inner)
            within = self._out.add("Range", f"{name}/within", [zero, each, one], Tidx="int32")
            first = self._scaled(f"{name}/first", self.first(replica), inner)
            row = self._out.add("AddV2", f"{name}/row", [within, first], T="int32")
            turns = self._out.constant(f"{name}/turns", [[k * inner] for k in range(outer)], "int32")
            begins = self._out.add("Mul", f"{name}/begins", [turns, self._total], T="int32")
            found = self._out.add("AddV2", f"{name}/all", [begins, row], T="int32")
            self._made[key] = self._out.reshape(name, found, [-1], "int32")
        return self._made[key]

    def _scaled(self, name: str, number: str, by: int) -> str:
        if name in self._scaled_before:
            return name
        self._scaled_before.add(name)
        factor = self._out.constant(f"{name}/by", by, "int32")
        return self._out.add("Mul", name, [number, factor], T="int32")


def sizes_without_rows(shape: Any) -> list[int]:
    """The sizes of an array without rows, for an argument of a step with this shape; unknown dims are 1."""
    return [0, *(1 if dim.size < 0 else int(dim.size) for dim in shape.dim[1:])]
