"""Exchanges of what replicas need around their parts of a dim: the rows of their neighbours, or of any others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autodist.carriers import Passed
from autodist.graph import tensor_dtype, tensor_label
from autodist.graph.layouts import (
    Bounds,
    Stretch,
    bounds_of_part,
    common_places,
    places_from_others,
    places_within,
)
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep


@dataclass(frozen=True)
class _Piece:
    """Some places of the dim that this worker has, in their order."""

    bounds: Bounds
    tensor: str


class StretchExchanges(AddsToStep):
    """Adds the nodes that give each replica the places of a dim that it needs.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        super().__init__(step)
        self._pieces: dict[str, list[_Piece]] = {}

    def of_parts(self, tensor: str, stretch: Stretch, values: Sequence[str]) -> list[str]:
        """The stretches of a tensor, of which each replica has a part.

        All that is needed around parts is exchanged at once, also for other uses of the tensor.
        """
        if tensor not in self._pieces:
            self._pieces[tensor] = self._exchanged(tensor, stretch.dim, stretch.length, values)
        return self._assembled(tensor, stretch, self._pieces[tensor])

    def of_whole(self, tensor: str, stretch: Stretch, value: str) -> list[str]:
        """The stretches of a tensor that each worker has whole."""
        return self._assembled(tensor, stretch, [_Piece((0, stretch.length), value)])

    # What workers pass to each other ---------------------------------------------------------------------------------

    def _exchanged(self, tensor: str, dim: int, length: int, values: Sequence[str]) -> list[_Piece]:
        """The pieces that this worker has after the exchange."""
        workers, rank = range(self._layout.world_size), self._layout.rank
        parts = [self._part(length, self._layout.first_replica + r) for r in range(len(values))]
        own = [_Piece(part, value) for part, value in zip(parts, values, strict=True)]
        if len(workers) == 1:
            return own
        dtype, label = tensor_dtype(self._nodes, tensor), f"{tensor_label(tensor)}/around_{dim}"
        stretches = self._plan.stretches_of(tensor)
        needed = [places_from_others(stretches, self._replicas(worker)) for worker in workers]
        sent = [[common_places(needed[to], self._own(length, by)) for to in workers] for by in workers]
        counts = tuple(tuple(sum(end - begin for begin, end in found) for found in row) for row in sent)
        local = f"autodist/local/{label}"
        rows = (
            (to, self._cut(f"{local}/for_{to}", tensor, dim, found, own))
            for to, found in enumerate(sent[rank])
            if found
        )
        front = [self._front(f"{local}/to_{to}", taken, tensor, dim) for to, taken in rows]
        none = self._front(f"{local}/no_rows", self._cut(local, tensor, dim, [], own), tensor, dim)
        passed = Passed(tuple(front), none, counts)
        kept, given = self._points.passing(label, values, passed, dtype, rank)
        own = [_Piece(part, value) for part, value in zip(parts, kept, strict=True)]
        for by, rows_of_other in zip(passed.by(rank), given, strict=True):
            back = self._back(f"{local}/by_{by}", rows_of_other, tensor, dim)
            own += self._apart(f"{local}/of_{by}", tensor, dim, sent[by][rank], back)
        return sorted(own, key=lambda piece: piece.bounds)

    def _replicas(self, worker: int) -> range:
        """The numbers of a worker's replicas, among those of all workers."""
        before = sum(len(self._layout.copies(rank)) for rank in range(worker))
        return range(before, before + len(self._layout.copies(worker)))

    def _own(self, length: int, worker: int) -> Bounds:
        """The places of which a worker's replicas have the parts."""
        replicas = self._replicas(worker)
        return self._part(length, replicas[0])[0], self._part(length, replicas[-1])[1]

    def _part(self, length: int, replica: int) -> Bounds:
        return bounds_of_part(length, self._plan.tiled.parts, replica)

    def _apart(self, name: str, tensor: str, dim: int, runs: Sequence[Bounds], value: str) -> Iterator[_Piece]:
        """The runs of places that one tensor has one after the other."""
        at = 0
        for k, (begin, end) in enumerate(runs):
            count = end - begin
            part = value if len(runs) == 1 else self._slice(f"{name}/{k}", tensor, dim, value, at, count)
            yield _Piece((begin, end), part)
            at += count

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _assembled(self, tensor: str, stretch: Stretch, pieces: Sequence[_Piece]) -> list[str]:
        """The stretch of each local replica."""
        known = [*dict.fromkeys(one.target for one in self._plan.exchanges[tensor])]
        found = []
        for r, device in enumerate(self._layout.replica_device(k) for k in range(len(self._layout.local_replicas))):
            runs = list(places_within(stretch.bounds[self._layout.first_replica + r], stretch.length))
            name = f"replica_{r}/autodist/around/{tensor_label(tensor)}/{known.index(stretch)}"
            found.append(self._cut(name, tensor, stretch.dim, runs, pieces, device))
        return found

    def _cut(
        self, name: str, tensor: str, dim: int, runs: Sequence[Bounds], pieces: Sequence[_Piece], device: str = ""
    ) -> str:
        """The places of some runs, one after the other."""
        found: list[str] = []
        for begin, end in runs:
            for piece in pieces:
                first, last = max(begin, piece.bounds[0]), min(end, piece.bounds[1])
                if (first, last) == piece.bounds:
                    found.append(piece.tensor)
                elif first < last:
                    at, count = first - piece.bounds[0], last - first
                    label = f"{name}/piece_{len(found)}"
                    found.append(self._slice(label, tensor, dim, piece.tensor, at, count, device))
        if not found:
            return self._slice(f"{name}/none", tensor, dim, pieces[0].tensor, 0, 0, device)
        if len(found) == 1:
            return found[0]
        axis = self._out.constant(f"{name}/dim", dim, "int32")
        dtype = tensor_dtype(self._nodes, tensor)
        return self._out.add("ConcatV2", name, [*found, axis], N=len(found), T=dtype, Tidx="int32", device=device)

    def _slice(self, name: str, tensor: str, dim: int, value: str, at: int, count: int, device: str = "") -> str:
        rank = self._rank(tensor)
        begin = self._out.constant(f"{name}/begin", [at if d == dim else 0 for d in range(rank)], "int32")
        size = self._out.constant(f"{name}/size", [count if d == dim else -1 for d in range(rank)], "int32")
        kinds = {"T": tensor_dtype(self._nodes, tensor), "Index": "int32", "device": device}
        return self._out.add("Slice", name, [value, begin, size], **kinds)

    def _front(self, name: str, value: str, tensor: str, dim: int) -> str:
        order = [dim, *(d for d in range(self._rank(tensor)) if d != dim)]
        return self._out.transpose(name, value, order, tensor_dtype(self._nodes, tensor))

    def _back(self, name: str, value: str, tensor: str, dim: int) -> str:
        order = [dim, *(d for d in range(self._rank(tensor)) if d != dim)]
        back = [order.index(d) for d in range(len(order))]
        return self._out.transpose(name, value, back, tensor_dtype(self._nodes, tensor))

    def _rank(self, tensor: str) -> int:
        return len(self._plan.shapes.shape(tensor) or ())
