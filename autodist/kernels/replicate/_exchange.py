"""Exchanges: bring a tensor from the layout in which it is computed to the one in which it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.carriers import Scattered, rows_of
from autodist.graph import tensor_dtype, tensor_label
from autodist.graph.layouts import Cut, Exchange, Multiple, Partial, Stretch, Tile, is_all_to_all
from autodist.graph.operators import Reducer
from autodist.kernels._base import Combine
from autodist.kernels.replicate._all_to_all import AllToAll
from autodist.kernels.replicate._batch_rows import entry_of
from autodist.kernels.replicate._row_reductions import as_row, of_rows
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep
from autodist.kernels.replicate._tile_exchange import TileExchanges


class Exchanges(AddsToStep):
    """Adds the nodes of exchanges.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        super().__init__(step)
        self._tiles = TileExchanges(step)
        self._all_to_all = AllToAll(step)
        self._cuts: dict[str, list[Cut]] = {}

    def made(self, exchange: Exchange, values: Sequence[str]) -> list[str]:
        """The tensors of the target layout: one if it is whole, else one per local replica.

        Args:
            exchange: The tensor, with its layouts before and after.
            values: The tensors of the layout before.
        """
        tensor, source, target = exchange.tensor, exchange.source, exchange.target
        if is_all_to_all(source, target):
            assert isinstance(source, Cut | Tile), exchange
            assert isinstance(target, Cut | Tile), exchange
            return self._all_to_all.made(exchange, source, target, values)
        if isinstance(source, Tile) or isinstance(target, Tile | Stretch):
            return self._tiles.made(exchange, values)
        if isinstance(source, Cut):
            return [self._gathered(tensor, source, values)]
        if isinstance(source, Partial) and isinstance(target, Cut):
            return self._scattered(tensor, target, values)
        if isinstance(source, Partial):
            return [self._put_together(tensor, source, values)]
        if isinstance(target, Cut):
            return [self._rows_of(tensor, target, values[0], r) for r in range(len(self._layout.local_replicas))]
        return [self._share_of(tensor, values[0], r) for r in range(len(self._layout.local_replicas))]

    def local_rows(self, tensor: str) -> str:
        """This worker's rows of a tensor that is gathered."""
        return f"autodist/local/{tensor_label(tensor)}"

    def rows_of_worker(self, tensor: str, value: str) -> str:
        """This worker's rows of a tensor of which it has all."""
        first, *others = self._plan.shapes.shape(tensor) or ()
        times = first.times if isinstance(first, Multiple) else 1
        name, (firsts, counts) = f"autodist/of_worker/{tensor_label(tensor)}", self._rows.by_worker
        ends = []
        for what, vector in (("begin", firsts), ("size", counts)):
            entry = entry_of(self._out, f"{name}/{what}/first", self._rows.times(vector, times), self._layout.rank)
            at = self._out.constant(f"{name}/{what}/at", [1, *(0 for _ in others)], "int32")
            along = self._out.add("Mul", f"{name}/{what}/along", [at, entry], T="int32")
            entries = [0, *(0 if what == "begin" else -1 for _ in others)]
            rest = self._out.constant(f"{name}/{what}/others", entries, "int32")
            ends.append(self._out.add("AddV2", f"{name}/{what}", [along, rest], T="int32"))
        return self._out.add("Slice", name, [value, *ends], T=tensor_dtype(self._nodes, tensor), Index="int32")

    # From whole tensors ----------------------------------------------------------------------------------------------

    def _rows_of(self, tensor: str, cut: Cut, value: str, replica: int) -> str:
        """A replica's rows of a tensor that its worker has whole."""
        dtype, name = tensor_dtype(self._nodes, tensor), f"replica_{replica}/autodist/part/{tensor_label(tensor)}"
        cuts = self._cuts.setdefault(tensor, [])
        cuts.extend([] if cut in cuts else [cut])
        name = f"{name}/{cuts.index(cut)}"  # sizes are no part of names, which are the same for batches of all lengths
        if cut.outer == 1:
            return self._range_of(name, tensor, cut, value, dtype, replica)
        places = self._rows.places(cut.outer, cut.inner, replica)
        axis = self._out.constant(f"{name}/axis", cut.dim, "int32")
        return self._out.add(
            "GatherV2",
            name,
            [value, places, axis],
            Tparams=dtype,
            Tindices="int32",
            Taxis="int32",
            batch_dims=0,
            device=self._layout.replica_device(replica),
        )

    def _range_of(self, name: str, tensor: str, cut: Cut, value: str, dtype: str, replica: int) -> str:
        rank = len(self._plan.shapes.shape(tensor) or ())
        at = self._out.constant(f"{name}/at", [cut.inner if d == cut.dim else 0 for d in range(rank)], "int32")
        begin = self._out.add("Mul", f"{name}/begin", [at, self._rows.first(replica)], T="int32")
        own = self._out.add("Mul", f"{name}/own", [at, self._rows.own(replica)], T="int32")
        others = self._out.constant(f"{name}/others", [0 if d == cut.dim else -1 for d in range(rank)], "int32")
        size = self._out.add("AddV2", f"{name}/size", [own, others], T="int32")
        kinds = {"T": dtype, "Index": "int32"}
        return self._out.add("Slice", name, [value, begin, size], device=self._layout.replica_device(replica), **kinds)

    def _share_of(self, tensor: str, value: str, replica: int) -> str:
        """A part of a sum: the whole on the first replica, and nothing on all others."""
        dtype, name = tensor_dtype(self._nodes, tensor), f"replica_{replica}/autodist/share/{tensor_label(tensor)}"
        first = self._out.constant(f"{name}/first", int(self._layout.first_replica + replica == 0), dtype)
        whole = dtype.startswith(("int", "uint"))
        return self._out.add(
            "Mul" if whole else "MulNoNan",
            name,
            [value, first],
            T=dtype,
            device=self._layout.replica_device(replica),
        )

    def rows_once(self, tensor: str, value: str) -> list[str]:
        """Rows that every worker has, to be concatenated over replicas: all on the first replica, none on others."""
        found, dtype = [], tensor_dtype(self._nodes, tensor)
        for replica in range(len(self._layout.local_replicas)):
            if self._layout.first_replica + replica == 0:
                found.append(value)
                continue
            name = f"replica_{replica}/autodist/no_rows/{tensor_label(tensor)}"
            bounds = {"begin": 0, "end": 0, "stride": 1}
            inputs = [value, *(self._out.constant(f"{name}/{what}", [at], "int32") for what, at in bounds.items())]
            kinds = {"T": dtype, "Index": "int32"}
            found.append(
                self._out.add("StridedSlice", name, inputs, device=self._layout.replica_device(replica), **kinds)
            )
        return found

    # To whole tensors ------------------------------------------------------------------------------------------------

    def _put_together(self, tensor: str, partial: Partial, values: Sequence[str]) -> str:
        dtype, label = tensor_dtype(self._nodes, tensor), tensor_label(tensor)
        shape = self._static(tensor)
        if partial.reducer is Reducer.SUM:
            local = self._out.sum(f"autodist/local/{label}", values, dtype)
            return self._points.at(label, Combine.SUM, local, dtype, shape)
        rows = [as_row(self._out, f"replica_{r}/autodist/row/{label}", v, dtype) for r, v in enumerate(values)]
        local = self._out.concat(f"autodist/local/{label}", rows, dtype)
        gathered = self._points.at(label, Combine.CONCAT, local, dtype, None)
        return of_rows(self._out, gathered, partial.reducer, dtype)

    def _scattered(self, tensor: str, cut: Cut, values: Sequence[str]) -> list[str]:
        """Each replica's rows of a sum."""
        dtype, label = tensor_dtype(self._nodes, tensor), tensor_label(tensor)
        rank = len(self._plan.shapes.shape(tensor) or ())
        whole = self._out.sum(f"autodist/local/{label}/rows", values, dtype)
        firsts, counts = (self._rows.times(vector, cut.inner) for vector in self._rows.by_worker)
        scattered = Scattered(whole, firsts, counts, rank)
        local = rows_of(self._out, f"autodist/local/{label}", scattered, self._layout.rank, dtype)
        own = self._points.at(label, Combine.SCATTER, local, dtype, None, scattered)
        sizes = [self._rows.times(self._rows.own(r), cut.inner) for r in range(len(values))]
        return self._split(own, sizes, 0, dtype)

    def _gathered(self, tensor: str, cut: Cut, values: Sequence[str]) -> str:
        """All rows of all replicas, in their order."""
        dtype, label = tensor_dtype(self._nodes, tensor), tensor_label(tensor)
        rank = len(self._plan.shapes.shape(tensor) or ())
        front = [cut.dim, *(d for d in range(rank) if d != cut.dim)]
        found = [
            self._rows_first(f"replica_{r}/autodist/rows/{label}", v, cut, front, dtype) for r, v in enumerate(values)
        ]
        local = self._out.concat(f"autodist/local/{label}", found, dtype)
        gathered = self._points.at(label, Combine.CONCAT, local, dtype, None)
        return self._in_place(gathered, cut, front, dtype)

    def _rows_first(self, name: str, value: str, cut: Cut, front: list[int], dtype: str) -> str:
        value = self._out.transpose(f"{name}/front", value, front, dtype)
        if cut.outer == 1:
            return value
        shape = self._behind(name, value, dtype)
        lead = self._out.constant(f"{name}/lead", [cut.outer, -1], "int32")
        split = self._out.concat(f"{name}/split", [lead, shape], "int32")
        apart = self._out.add("Reshape", f"{name}/apart", [value, split], T=dtype, Tshape="int32")
        return self._out.transpose(f"{name}/rows", apart, [1, 0, *range(2, len(front) + 1)], dtype)

    def _in_place(self, gathered: str, cut: Cut, front: list[int], dtype: str) -> str:
        value = gathered
        if cut.outer > 1:
            value = self._out.transpose(f"{gathered}/turned", value, [1, 0, *range(2, len(front) + 1)], dtype)
            behind = self._behind(f"{gathered}/flat", value, dtype, 2)
            lead = self._out.constant(f"{gathered}/lead", [-1], "int32")
            shape = self._out.concat(f"{gathered}/shape", [lead, behind], "int32")
            value = self._out.add("Reshape", f"{gathered}/joined", [value, shape], T=dtype, Tshape="int32")
        return self._out.transpose(f"{gathered}/back", value, [front.index(d) for d in range(len(front))], dtype)

    def _behind(self, name: str, value: str, dtype: str, first: int = 1) -> str:
        """The lengths of all dims after the first ones."""
        shape = self._out.add("Shape", f"{name}/lengths", [value], T=dtype, out_type="int32")
        begin = self._out.constant(f"{name}/lengths/begin", [first], "int32")
        size = self._out.constant(f"{name}/lengths/size", [-1], "int32")
        return self._out.add("Slice", f"{name}/lengths/behind", [shape, begin, size], T="int32", Index="int32")

    def _static(self, tensor: str) -> tuple[int | None, ...] | None:
        shape = self._plan.shapes.shape(tensor)
        return None if shape is None else tuple(size if isinstance(size, int) else None for size in shape)
