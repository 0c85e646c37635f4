"""Exchanges of parts along one dim for parts along another: each worker sends every other one what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autodist.carriers import Passed
from autodist.graph import tensor_dtype, tensor_label
from autodist.graph.layouts import Cut, Exchange, Tile
from autodist.kernels.replicate._batch_rows import entry_of
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep
from autodist.kernels.replicate._tile_bounds import TileBounds


@dataclass(frozen=True)
class _Parts:
    """Where the parts of a dim lie.

    Attributes:
        dim: The dim.
        firsts: By worker, the first place of its replicas' parts: a vector.
        counts: By worker, how many places its replicas have together: a vector.
        own: By local replica, how many places it has: scalars.
    """

    dim: int
    firsts: str
    counts: str
    own: tuple[str, ...]


@dataclass(frozen=True)
class _Parted:
    """A tensor that is given from worker to worker.

    Attributes:
        name: What the names of its nodes begin with.
        dtype: Its element type.
        had: Where the parts lie that workers have.
        made: Where the parts lie that they need.
        own: This worker's parts, put together.
        lengths: The lengths of that: a vector.
        rank: How many dims it has.
    """

    name: str
    dtype: str
    had: _Parts
    made: _Parts
    own: str
    lengths: str
    rank: int


class AllToAll(AddsToStep):
    """Adds the nodes that give replicas parts of a tensor along another dim than they have it in.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        super().__init__(step)
        self._bounds = TileBounds(step)

    def made(self, exchange: Exchange, source: Cut | Tile, target: Cut | Tile, values: Sequence[str]) -> list[str]:
        """The parts of the target layout, one per local replica.

        Args:
            exchange: The tensor.
            source: Its layout before.
            target: Its layout after.
            values: The parts before.
        """
        label = f"{tensor_label(exchange.tensor)}/dim_{source.dim}_to_{target.dim}"
        given = self._parted(f"autodist/local/{label}", exchange.tensor, source, target, values)
        workers, rank = range(self._layout.world_size), self._layout.rank
        pieces = [self._piece_for(given, to) for to in workers]
        found = [pieces[rank]]
        if len(workers) > 1:
            kept, others = self._points.passing(label, found, self._passed(given, pieces), given.dtype, rank)
            found = [self._piece_by(given, value, by) for by, value in zip(_but(workers, rank), others, strict=True)]
            found.insert(rank, kept[0])
        whole = self._out.concat(f"{given.name}/together", found, given.dtype, source.dim)
        return self._split(whole, given.made.own, given.made.dim, given.dtype)

    def _parted(self, name: str, tensor: str, source: Cut | Tile, target: Cut | Tile, values: Sequence[str]) -> _Parted:
        dtype, rank = tensor_dtype(self._nodes, tensor), len(self._plan.shapes.shape(tensor) or ())
        had, made = self._parts(f"{name}/had", tensor, source), self._parts(f"{name}/made", tensor, target)
        own = self._out.concat(f"{name}/own", values, dtype, source.dim)
        lengths = self._out.add("Shape", f"{name}/lengths", [own], T=dtype, out_type="int32")
        return _Parted(name, dtype, had, made, own, lengths, rank)

    def _parts(self, name: str, tensor: str, layout: Cut | Tile) -> _Parts:
        out, local = self._out, range(len(self._layout.local_replicas))
        if isinstance(layout, Cut):
            firsts, counts = (self._rows.times(vector, layout.inner) for vector in self._rows.by_worker)
            own = tuple(self._rows.times(self._rows.own(r), layout.inner) for r in local)
            return _Parts(layout.dim, firsts, counts, own)
        firsts, counts = (
            out.constant(f"{name}/{what}", places, "int32")
            for what, places in zip(("firsts", "counts"), self._bounds.by_worker(tensor, layout), strict=True)
        )
        sizes = self._bounds.own_sizes(tensor, layout)
        own = tuple(out.constant(f"{name}/own_{r}", size, "int32") for r, size in enumerate(sizes))
        return _Parts(layout.dim, firsts, counts, own)

    # What travels ----------------------------------------------------------------------------------------------------

    def _piece_for(self, given: _Parted, to: int) -> str:
        """The piece of this worker's parts that another one needs."""
        out, made, name = self._out, given.made, f"{given.name}/for_{to}"
        begin = self._along(f"{name}/begin", given, made.dim, entry_of(out, f"{name}/first", made.firsts, to))
        count = self._along(f"{name}/count", given, made.dim, entry_of(out, f"{name}/places", made.counts, to))
        others = out.constant(f"{name}/others", [0 if d == made.dim else -1 for d in range(given.rank)], "int32")
        size = out.add("AddV2", f"{name}/size", [count, others], T="int32")
        return out.add("Slice", name, [given.own, begin, size], T=given.dtype, Index="int32")

    def _passed(self, given: _Parted, pieces: Sequence[str]) -> Passed:
        """The pieces for others, as vectors: the lengths of pieces differ from worker to worker."""
        out, name, workers = self._out, given.name, range(self._layout.world_size)
        rows = tuple(
            out.reshape(f"{name}/to_{to}", pieces[to], [-1], given.dtype) for to in _but(workers, self._layout.rank)
        )
        at, none = (out.constant(f"{name}/none/{what}", [0], "int32") for what in ("begin", "size"))
        nothing = out.add("Slice", f"{name}/none", [rows[0], at, none], T=given.dtype, Index="int32")
        counts = tuple(tuple(int(to != by) for to in workers) for by in workers)
        return Passed(rows, nothing, counts, self._sizes(f"{name}/sizes", given, counts))

    def _sizes(self, name: str, given: _Parted, counts: Sequence[Sequence[int]]) -> str:
        """How many elements each worker sends to each, by sender: a vector."""
        out, count, others = self._out, self._layout.world_size, self._other_lengths(f"{name}/others", given)
        pair = out.constant(f"{name}/pair", [int(d in _pair(given)) for d in range(given.rank)], "int32")
        factors = out.add("AddV2", f"{name}/factors", [others, pair], T="int32")
        dim = out.constant(f"{name}/dim", [0], "int32")
        each = out.add("Prod", f"{name}/each", [factors, dim], T="int32", Tidx="int32", keep_dims=False)
        by = out.reshape(f"{name}/by", given.had.counts, [count, 1], "int32")
        pairs = out.add("Mul", f"{name}/pairs", [by, given.made.counts], T="int32")
        sizes = out.add("Mul", f"{name}/of_pairs", [pairs, each], T="int32")
        sent = out.add("Mul", f"{name}/sent", [sizes, out.constant(f"{name}/is_sent", counts, "int32")], T="int32")
        return out.reshape(name, sent, [-1], "int32")

    def _piece_by(self, given: _Parted, value: str, by: int) -> str:
        """The piece that another worker gave, in its shape."""
        out, name, own = self._out, f"{given.name}/by_{by}", self._layout.rank
        terms = [
            self._other_lengths(f"{name}/others", given),
            self._along(f"{name}/had", given, given.had.dim, entry_of(out, f"{name}/had/n", given.had.counts, by)),
            self._along(f"{name}/made", given, given.made.dim, entry_of(out, f"{name}/made/n", given.made.counts, own)),
        ]
        shape = out.sum(f"{name}/shape", terms, "int32")
        return out.add("Reshape", name, [value, shape], T=given.dtype, Tshape="int32")

    # Vectors with an entry for each dim ------------------------------------------------------------------------------

    def _along(self, name: str, given: _Parted, dim: int, number: str) -> str:
        """A number for one dim, 0 for all others."""
        one = self._out.constant(f"{name}/at", [int(d == dim) for d in range(given.rank)], "int32")
        return self._out.add("Mul", name, [one, number], T="int32")

    def _other_lengths(self, name: str, given: _Parted) -> str:
        """The lengths of the dims that no worker has a part of, 0 for both others."""
        kept = self._out.constant(f"{name}/kept", [int(d not in _pair(given)) for d in range(given.rank)], "int32")
        return self._out.add("Mul", name, [given.lengths, kept], T="int32")


def _pair(given: _Parted) -> tuple[int, int]:
    return given.had.dim, given.made.dim


def _but(workers: range, one: int) -> list[int]:
    return [worker for worker in workers if worker != one]
