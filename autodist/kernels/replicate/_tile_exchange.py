"""Exchanges of tiled tensors: each replica has one of the parts of a dim."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.carriers import Scattered, rows_of
from autodist.graph import tensor_dtype, tensor_label
from autodist.graph.layouts import Exchange, Partial, Stretch, Tile, Whole, bounds_of_part
from autodist.kernels._base import Combine
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep
from autodist.kernels.replicate._stretch_exchange import StretchExchanges
from autodist.kernels.replicate._tile_bounds import TileBounds


class TileExchanges(AddsToStep):
    """Adds the nodes that bring tensors into parts and out of them.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        super().__init__(step)
        self._count = len(step.layout.local_replicas)
        self._bounds = TileBounds(step)
        self._stretches = StretchExchanges(step)

    def made(self, exchange: Exchange, values: Sequence[str]) -> list[str]:
        """The tensors of the target layout: one if it is whole, else one per local replica."""
        tensor, source, target = exchange.tensor, exchange.source, exchange.target
        if isinstance(target, Stretch):
            if isinstance(source, Tile):
                return self._stretches.of_parts(tensor, target, values)
            return self._stretches.of_whole(tensor, target, values[0])
        if isinstance(source, Tile) and isinstance(target, Whole):
            return [self._gathered(tensor, source, values)]
        if isinstance(source, Tile) and isinstance(target, Partial):
            return [self._padded(tensor, source, value, r) for r, value in enumerate(values)]
        if isinstance(source, Partial) and isinstance(target, Tile):
            return self._scattered(tensor, target, values)
        assert isinstance(source, Whole), exchange
        assert isinstance(target, Tile), exchange
        return [self._part_of(tensor, target, values[0], r) for r in range(self._count)]

    def _rank(self, tensor: str) -> int:
        return len(self._plan.shapes.shape(tensor) or ())

    def _label(self, tensor: str, tile: Tile) -> str:
        within = f"_of_{tile.outer}" if tile.outer > 1 else ""
        return f"{tensor_label(tensor)}/tile_{tile.dim}{within}"

    def _part_of(self, tensor: str, tile: Tile, value: str, replica: int) -> str:
        """A replica's part of a tensor that its worker has whole."""
        dtype, rank, dim = tensor_dtype(self._nodes, tensor), self._rank(tensor), tile.dim
        name = f"replica_{replica}/autodist/part/{self._label(tensor, tile)}"
        length = self._bounds.length(tensor, tile) // tile.outer
        if tile.outer > 1:
            value, rank, dim = self._unstrung(f"{name}/stretches", tensor, tile, value, length), rank + 1, dim + 1
        first, last = bounds_of_part(length, self._plan.tiled.parts, self._layout.first_replica + replica)
        begin = self._out.constant(f"{name}/begin", [first if d == dim else 0 for d in range(rank)], "int32")
        sizes = [last - first if d == dim else -1 for d in range(rank)]
        size = self._out.constant(f"{name}/size", sizes, "int32")
        kinds = {"T": dtype, "Index": "int32", "device": self._layout.replica_device(replica)}
        part = self._out.add("Slice", name, [value, begin, size], **kinds)
        return part if tile.outer == 1 else self._strung(f"{name}/strung", tensor, tile, part, last - first)

    def _gathered(self, tensor: str, tile: Tile, values: Sequence[str]) -> str:
        """All parts of all replicas, in their order."""
        dtype, label, front = (
            tensor_dtype(self._nodes, tensor),
            self._label(tensor, tile),
            self._front(tensor, tile),
        )
        names = [f"replica_{r}/autodist/{label}" for r in range(len(values))]
        length = self._bounds.length(tensor, tile) // tile.outer
        if tile.outer > 1:
            each = length // self._plan.tiled.parts
            pairs = zip(names, values, strict=True)
            values = [self._unstrung(f"{name}/stretches", tensor, tile, value, each) for name, value in pairs]
        first = [self._out.transpose(f"{n}/first", v, front, dtype) for n, v in zip(names, values, strict=True)]
        local = self._out.concat(f"autodist/local/{label}", first, dtype)
        gathered = self._points.at(label, Combine.CONCAT, local, dtype, None)
        back = [front.index(d) for d in range(len(front))]
        whole = self._out.transpose(f"{gathered}/back", gathered, back, dtype)
        return whole if tile.outer == 1 else self._strung(f"{whole}/strung", tensor, tile, whole, length)

    def _unstrung(self, name: str, tensor: str, tile: Tile, value: str, length: int) -> str:
        """A tensor in which the stretches of a dim, each of this length, are a dim of their own before it."""
        shape, dtype = self._sizes(tensor), tensor_dtype(self._nodes, tensor)
        sizes = [*shape[: tile.dim], tile.outer, length, *shape[tile.dim + 1 :]]
        return self._out.reshape(name, value, sizes, dtype)

    def _strung(self, name: str, tensor: str, tile: Tile, value: str, length: int) -> str:
        """A tensor in which the stretches of a dim, each of this length, are strung together."""
        shape, dtype = self._sizes(tensor), tensor_dtype(self._nodes, tensor)
        sizes = [*shape[: tile.dim], tile.outer * length, *shape[tile.dim + 1 :]]
        return self._out.reshape(name, value, sizes, dtype)

    def _sizes(self, tensor: str) -> list[int]:
        """The shape of a tensor in a step whose lengths are all known."""
        shape = self._plan.shapes.cases[0].shape(tensor)
        assert shape is not None, tensor
        assert None not in shape, tensor
        return [size or 0 for size in shape]

    def _scattered(self, tensor: str, tile: Tile, values: Sequence[str]) -> list[str]:
        """Each replica's part of a sum."""
        dtype, label, front = (
            tensor_dtype(self._nodes, tensor),
            self._label(tensor, tile),
            self._front(tensor, tile),
        )
        summed = self._out.sum(f"autodist/local/{label}/sum", values, dtype)
        whole = self._out.transpose(f"autodist/local/{label}/first", summed, front, dtype)
        firsts, counts = self._bounds.by_worker(tensor, tile)
        begins = self._out.constant(f"autodist/local/{label}/firsts", firsts, "int32")
        lengths = self._out.constant(f"autodist/local/{label}/counts", counts, "int32")
        scattered = Scattered(whole, begins, lengths, self._rank(tensor))
        local = rows_of(self._out, f"autodist/local/{label}", scattered, self._layout.rank, dtype)
        own = self._points.at(label, Combine.SCATTER, local, dtype, None, scattered)
        back = [front.index(d) for d in range(len(front))]
        parts = self._split(own, self._bounds.own_sizes(tensor, tile), 0, dtype)
        return [self._out.transpose(f"{part}/back", part, back, dtype) for part in parts]

    def _padded(self, tensor: str, tile: Tile, value: str, replica: int) -> str:
        """A part of a sum: a replica's own part, and zeros elsewhere."""
        dtype, rank = tensor_dtype(self._nodes, tensor), self._rank(tensor)
        name = f"replica_{replica}/autodist/padded/{self._label(tensor, tile)}"
        begin, end = self._bounds.of(tensor, tile, replica)
        own = (begin, self._bounds.length(tensor, tile) - end)
        paddings = self._out.constant(
            f"{name}/paddings", [own if d == tile.dim else (0, 0) for d in range(rank)], "int32"
        )
        kinds = {"T": dtype, "Tpaddings": "int32", "device": self._layout.replica_device(replica)}
        zero = self._out.constant(f"{name}/zero", 0, dtype)
        # TensorFlow's pass for oneDNN takes a `Pad` before a convolution with a bias for that of the image, and aborts
        # the process if it is that of the bias.
        return self._out.add("PadV2", name, [value, paddings, zero], **kinds)

    def _front(self, tensor: str, tile: Tile) -> list[int]:
        """The order of dims in which the one that is cut comes first; its stretches are a dim before it."""
        is_strung = int(tile.outer > 1)
        dim = tile.dim + is_strung
        return [dim, *(d for d in range(self._rank(tensor) + is_strung) if d != dim)]
