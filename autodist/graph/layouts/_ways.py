"""The ways in which replicas can share the work of a node: whole, cut along an index, or on parts of sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autodist.graph._graph_def import data_inputs, node_of, output_types, tensor_dtype, tensor_name
from autodist.graph.batch import BY, Value
from autodist.graph.batch import Kind as Batch
from autodist.graph.batch import Rows as InBatch
from autodist.graph.layouts._base import OWN, WHOLE, Cut, Layout, Multiple, Own, Partial, Tile
from autodist.graph.layouts._batch_ranges import RANGES
from autodist.graph.layouts._flows import is_flow
from autodist.graph.layouts._meaning import Along, AlongTiles, Meaning, meaning_of
from autodist.graph.layouts._part_changes import changes_of_parts
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._stretches import stretched
from autodist.graph.layouts._way import Entry, Way, entries_at, local_entry, part_entry
from autodist.graph.operators import Kind, Linearity, RangeUse, Reducer, is_kind, meaning

_PARTIAL = {
    Reducer.SUM: Partial(),
    Reducer.MEAN: Partial(),
    Reducer.MAX: Partial(Reducer.MAX),
    Reducer.MIN: Partial(Reducer.MIN),
    Reducer.ALL: Partial(Reducer.ALL),
    Reducer.ANY: Partial(Reducer.ANY),
}


class Ways:
    """Finds the ways of nodes.

    Args:
        nodes: The flat step, by name.
        shapes: The shapes and small whole numbers of the step.
        parts: How many parts tiled tensors have; 0 where there are none.
        repeats: Whether parts may fall into stretches, see :class:`Tile`: in a step whose lengths are all known.
    """

    def __init__(self, nodes: dict[str, Any], shapes: StepShapes, parts: int = 0, *, repeats: bool = False) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._parts = parts
        self._repeats = repeats
        self._meanings: dict[str, Meaning | None] = shapes.meanings

    def outputs_of(self, node: Any) -> int:
        """How many outputs a node has."""
        shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
        return max(1, len(shapes) or len(output_types(node)))

    def meaning(self, node: Any) -> Meaning | None:
        """The computation of a node."""
        if node.name not in self._meanings:
            self._meanings[node.name] = meaning_of(node, self._shapes)
        return self._meanings[node.name]

    def by_inputs(self, node: Any, layouts: Sequence[Layout]) -> Iterator[Way]:
        """The ways that some of the inputs suggest, as they are shared."""
        if BY in node.attr:
            yield Way((layouts[0], *layouts[1:]), (layouts[0],) * self.outputs_of(node), passes=True)
            return
        if is_flow(node):
            way = self._flow(node)
            yield from [] if way is None else [way]
            return
        seen: set[Along | AlongTiles] = set()
        meaning = self.meaning(node)
        for position, layout in enumerate(layouts):
            if not isinstance(layout, Cut | Tile):
                continue
            if meaning is not None:
                yield from self._by_input(node, meaning, position, layout, seen)
            if isinstance(layout, Cut):
                yield from self._in_ranges(node, position, layout)
        if any(isinstance(layout, Partial) for layout in layouts):
            yield from self._of_parts(node, layouts)

    def _by_input(
        self, node: Any, meaning: Meaning, position: int, layout: Cut | Tile, seen: set[Along | AlongTiles]
    ) -> Iterator[Way]:
        """The ways that one input suggests, which others have not."""
        is_found = False
        for along in self._indices(meaning, position, layout):
            ways = list(self._along(node, meaning, along)) if along not in seen else []
            is_found = is_found or along in seen or bool(ways)
            seen.update([along] if ways else [])
            yield from ways
        if not is_found and isinstance(layout, Tile) and layout.outer == 1:
            way = self._in_stretches(node, meaning, position, layout, seen)
            yield from [] if way is None else [way]

    def _indices(self, meaning: Meaning, position: int, layout: Cut | Tile) -> tuple[Along | AlongTiles, ...]:
        """The indices that an input which is shared like this is cut along."""
        dims = meaning.inputs[position]
        if isinstance(layout, Cut):
            return meaning.along(dims, layout)
        along = meaning.along_tiles(dims, layout, self._parts, repeats=self._repeats)
        return () if along is None else (along,)

    def by_output(self, node: Any, index: int, layout: Layout) -> Way | None:
        """A way that makes an output that is shared like this; None if there is none."""
        if is_kind(node.op, Kind.RANDOM):
            return self._drawn(node, layout)
        if is_flow(node):
            way = self._flow(node)
            return way if way is not None and way.outputs[index] == layout else None
        meaning = self.meaning(node)
        if meaning is None:
            return None
        if isinstance(layout, Cut):
            found: tuple[Along | AlongTiles, ...] = meaning.along(meaning.outputs[index], layout)
        elif layout == Partial():
            multiples = ((name, meaning.sizes[name]) for name, how in meaning.reduced.items() if how is Reducer.SUM)
            found = tuple(Along(name, size.times, 1) for name, size in multiples if isinstance(size, Multiple))
        elif isinstance(layout, Tile):
            return self.of_part(node, index, layout, masked=True)
        else:
            return None
        ways = (way for along in found for way in self._along(node, meaning, along))
        return next((way for way in ways if way.outputs[index] == layout), None)

    def of_part(self, node: Any, index: int, tile: Tile, *, masked: bool = False) -> Way | None:
        """A way that makes a part of an output, whatever that takes; None if there is none.

        Args:
            node: The node.
            index: The number of the output.
            tile: The dim of which it is a part.
            masked: Whether the part must be one of rows that an input names by number.
        """
        meaning = self.meaning(node)
        if meaning is None:
            return None
        along = meaning.along_tiles(meaning.outputs[index], tile, self._parts, repeats=self._repeats)
        if along is None or (masked and along.index not in meaning.masked):
            return None
        return next((way for way in self._along(node, meaning, along) if way.outputs[index] == tile), None)

    def can_be_own(self, tensor: str) -> bool:
        """Whether each replica can have a list of its own in place of this one, because the list is still empty."""
        way = self._flow(self._nodes[node_of(tensor)])
        return way is not None and isinstance(way.outputs[0], Own)

    def _flow(self, node: Any) -> Way | None:
        """A loop, a branch, or what handles lists, on a replica's own rows; None if that can't be."""
        if not is_flow(node):
            return None
        given, made = self._shapes.flow(node)
        if Batch.MET in (*given, *made):
            return None
        tensors = data_inputs(node)
        inputs = tuple(self._of_flow(t, v) for t, v in zip(tensors, given, strict=True))
        outputs = tuple(self._of_flow(tensor_name(node.name, k), value) for k, value in enumerate(made))
        lengths = {k: self._shapes.numbers(t) for k, t in enumerate(tensors) if inputs[k] is None}
        if None in outputs or any(entries is None or None in entries for entries in lengths.values()):
            return None
        local = tuple((k, tuple(local_entry(entry, True) for entry in entries or ())) for k, entries in lengths.items())
        return Way(
            tuple(WHOLE if layout is None else layout for layout in inputs),
            tuple(layout for layout in outputs if layout is not None),
            local,
        )

    def _of_flow(self, tensor: str, value: Value) -> Layout | None:
        """How replicas have a tensor that goes into a loop, or comes out of it; None for lengths of their own."""
        if value is Batch.DATA:
            return Partial()
        if value is None:
            return WHOLE
        if tensor_dtype(self._nodes, tensor) == "variant" or (value is Batch.SIZE and self._is_of_flow(tensor)):
            return OWN
        return Cut(value.dim) if isinstance(value, InBatch) else None

    def _is_of_flow(self, tensor: str) -> bool:
        return is_flow(self._nodes[node_of(tensor)])

    def _along(self, node: Any, meaning: Meaning, along: Along | AlongTiles) -> Iterator[Way]:
        """The way that is cut along an index, if there is one."""
        is_tiled = isinstance(along, AlongTiles)
        changes = changes_of_parts(node, self._shapes.cases, along) if isinstance(along, AlongTiles) else ()
        masks = meaning.masked.get(along.index) if is_tiled else None
        if (along.index in meaning.joined and masks is None) or changes is None:
            return
        if masks is not None and along.outer > 1:
            return  # rows are named by where a part begins
        inputs: list[Layout] = []
        for dims in meaning.inputs:
            places = () if dims is None else meaning.dims_of(dims, along.index)
            cut = None if dims is None or not places else meaning.cut(dims, along)
            if places and cut is None:
                return
            inputs.append(WHOLE if cut is None else cut)
        outputs = self._outputs(node, meaning, along)
        local = self._lengths(node, meaning, along)
        if outputs is not None and local is not None:
            is_open = "shape" in node.attr and not local
            yield Way(tuple(inputs), outputs, tuple(local.items()), open_shape=is_open, changes=changes, masks=masks)

    def _in_stretches(
        self, node: Any, meaning: Meaning, position: int, tile: Tile, seen: set[Along | AlongTiles]
    ) -> Way | None:
        """The way for which replicas may need more of an input than their part; None if there is none."""
        found = stretched(node, self._shapes, position, tile, self._parts)
        along = None if found is None else AlongTiles(found.index, self._parts)
        if found is None or along is None or along in seen:
            return None
        if not isinstance(meaning.sizes[found.index], int):
            return None  # in a step for one number of rows, its length may be one that grows with them
        seen.add(along)
        changes = changes_of_parts(node, self._shapes.cases, along)
        local = self._lengths(node, meaning, along)
        if changes is None or local is None:
            return None
        return Way(found.inputs, found.outputs, tuple(local.items()), changes=changes)

    def _outputs(self, node: Any, meaning: Meaning, along: Along | AlongTiles) -> tuple[Layout, ...] | None:
        if along.index in meaning.reduced:
            reducer = meaning.reduced[along.index]
            is_counted = reducer is not Reducer.MEAN or self._is_divisible(node)
            partial = _PARTIAL.get(reducer) if is_counted else None
            return None if partial is None or len(meaning.outputs) != 1 else (partial,)
        found: list[Layout] = []
        for dims in meaning.outputs:
            cut = None if dims is None else meaning.cut(dims, along)
            if cut is None:
                return None
            found.append(cut)
        return tuple(found)

    def _is_divisible(self, node: Any) -> bool:
        """Whether replicas' parts of a mean add up: if its input's shape is known, and the mean is not rounded."""
        is_known = None not in (self._shapes.shape(node.input[0]) or (None,))
        return is_known and not tensor_dtype(self._nodes, node.name).startswith(("int", "uint"))

    def _lengths(self, node: Any, meaning: Meaning, along: Along | AlongTiles) -> dict[int, tuple[Entry, ...]] | None:
        """The entries of inputs that are lengths, as a replica has them; None if they are not known."""
        found: dict[int, tuple[Entry, ...]] = {}
        local = part_entry if isinstance(along, AlongTiles) else local_entry
        tensors = data_inputs(node)
        for position, places in meaning.lengths.items():
            if not any(place.factor(along.index) for place in places):
                continue
            entries = self._lengths_of(node, tensors[position])
            if entries is None or None in entries or len(entries) != len(places):
                return None
            pairs = zip(entries, places, strict=True)
            found[position] = tuple(local(entry, bool(place.factor(along.index))) for entry, place in pairs)
        return found

    def _lengths_of(self, node: Any, tensor: str) -> tuple[Any, ...] | None:
        """The entries of an input that holds lengths; -1 is filled in, which a replica without rows could not infer."""
        entries = self._shapes.numbers(tensor)
        shape = self._shapes.shape(node.name) if node.op == "Reshape" else None
        if entries is None or shape is None or len(shape) != len(entries):
            return entries
        return tuple(
            size if entry == -1 and size is not None else entry for entry, size in zip(entries, shape, strict=True)
        )

    def _drawn(self, node: Any, layout: Layout) -> Way | None:
        """The way in which a replica draws what one device draws for its rows: by the counter."""
        if not meaning(node.op).draws_in_order or not isinstance(layout, Cut) or layout.dim or layout.outer != 1:
            return None
        shape, entries = self._shapes.shape(node.name) or (), self.numbers(node.input[0])
        if entries is None or not all(isinstance(size, int) for size in shape[1:]):
            return None
        return Way((WHOLE,) * len(data_inputs(node)), (layout,), ((0, entries_at(entries, 0)),), draws=True)

    # Parts of sums ---------------------------------------------------------------------------------------------------

    def _of_parts(self, node: Any, layouts: Sequence[Layout]) -> Iterator[Way]:
        """An operator that is linear gives parts of a sum for parts of a sum."""
        linearity, partial = meaning(node.op).linearity, Partial()
        if linearity is None or not self._keeps_fractions(node):
            return
        count, parts = len(layouts), [k for k, layout in enumerate(layouts) if layout == partial]
        outputs = (partial,) * self.outputs_of(node)
        if linearity is Linearity.JOINT:
            terms = count - (meaning(node.op).range_use is RangeUse.JOINS)  # the input after them is the dim
            yield Way((*(partial,) * terms, *(WHOLE,) * (count - terms)), outputs)
        elif parts == [0] or (linearity is Linearity.EACH and len(parts) == 1):
            yield Way(tuple(partial if k in parts else WHOLE for k in range(count)), outputs)

    def _keeps_fractions(self, node: Any) -> bool:
        if node.op != "Cast":
            return True
        kinds = tensor_dtype(self._nodes, node.input[0]), tensor_dtype(self._nodes, node.name)
        return all(kind.startswith(("float", "bfloat", "complex")) for kind in kinds)

    # Ranges of the batch ---------------------------------------------------------------------------------------------

    def _in_ranges(self, node: Any, position: int, cut: Cut) -> Iterator[Way]:
        """Batches one after the other, and taken apart again."""
        rule = RANGES.get(meaning(node.op).range_use)
        way = None if rule is None else rule(self, node, position, cut)
        if way is not None:
            yield way

    def length(self, tensor: str, dim: int) -> int | None:
        """How many times the number of examples a dim is; None if it is not a multiple."""
        shape = self._shapes.shape(tensor) or ()
        size = shape[dim] if dim < len(shape) else None
        return size.times if isinstance(size, Multiple) else None

    def numbers(self, tensor: str) -> tuple[Any, ...] | None:
        """The entries of a vector; None if one is not known."""
        found = self._shapes.numbers(tensor)
        return None if found is None or None in found else found

    def rank(self, tensor: str) -> int:
        """Number of dims."""
        return len(self._shapes.shape(tensor) or ())

    def keeps_other_dims(self, one: str, other: str, dim: int) -> bool:
        """Whether two tensors differ along one dim only."""
        a, b = self._shapes.shape(one), self._shapes.shape(other)
        return (
            a is not None
            and b is not None
            and len(a) == len(b)
            and all(x == y and x is not None for d, (x, y) in enumerate(zip(a, b, strict=True)) if d != dim)
        )
