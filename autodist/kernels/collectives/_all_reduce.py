"""AllReduce: every worker holds the variable and applies the same, reduced gradient (thesis 7.3.2).

The gradients of one group travel in one buffer. Sparse gradients are gathered, values and indices, in rank order: the
single-device order, which optimizers that look at single slices (Keras' Adam squares them) need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from autodist import carriers
from autodist.carriers import JOINED_BYTES, CollectivePlace, Communicator
from autodist.errors import CaptureError
from autodist.graph import NodeList, itemsize, node_of
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._synchronizers import given_to
from autodist.kernels.collectives._bit_packing import from_words, num_words, to_words
from autodist.strategies import AllReduceSynchronizer, Strategy, Synchronizer

_BUFFER_BYTES = 16 << 10
_NUMBERS = re.compile("b?float|u?int")


@dataclass(frozen=True)
class AllReduceGradients(Kernel):
    """Adds all-reduces to the gradients of the variables that the strategy gives to AllReduce.

    Attributes:
        strategy: Says which variables, in which groups, by which communicator.
        step: Name of the compiled step.
    """

    name: ClassVar[str] = "all-reduce"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.MESSAGES, Fact.SERVED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.REDUCED})
    synchronizer: ClassVar[type[Synchronizer]] = AllReduceSynchronizer
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        groups: dict[str, tuple[str, list[SyncPoint]]] = {}
        for point in graph.points:
            synchronizer = given_to(AllReduceSynchronizer, self.strategy, point.variable)
            if synchronizer is not None:
                # A point that depends on another one (an update that the next gradient sees) can't go with it.
                label = f"group_{synchronizer.group}/layer_{point.layer}{_apart(graph, point)}"
                groups.setdefault(label, (synchronizer.communicator, []))[1].append(point)
        return _reduced(graph, groups, self.step)


@dataclass(frozen=True)
class AllReduceState(Kernel):
    """Joins all but gradients: sizes, losses, metrics, statistics; those of one dtype and layer in few buffers.

    Attributes:
        strategy: Says by which communicator.
        step: Name of the compiled step.
    """

    name: ClassVar[str] = "all-reduce-state"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REDUCED, Fact.SPREAD})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.STATE})
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        carrier = self.strategy.graph.communicator
        groups: dict[str, tuple[str, list[SyncPoint]]] = {}
        for point in graph.points:
            if point.variable is None:
                label = f"state_{point.dtypes[0]}/layer_{point.layer}{_apart(graph, point)}"
                groups.setdefault(label, (carrier, []))[1].append(point)
        if graph.layout.world_size == 1:
            return graph
        # Perhaps only one server needs the result, for a whole gradient or an update, but all workers have to meet.
        met = [name for _, points in groups.values() for point in points for name in point.synced]
        return _reduced(graph, groups, self.step).replace(effects=(*graph.effects, *met))


def _reduced(graph: DistributedGraph, groups: dict[str, tuple[str, list[SyncPoint]]], step: str) -> DistributedGraph:
    """The graph with each group's points joined over all workers.

    Args:
        graph: G.
        groups: By label, the communicator and the points that it carries.
        step: Name of the compiled step.
    """
    if graph.layout.world_size == 1 or not groups:
        return graph
    nodes = graph.edit(graph.layout.main_device)
    inputs: dict[str, str] = {}
    sizes: dict[str, dict[str, int]] = {}  # gathered points, by carrier
    for label, (carrier, points) in groups.items():
        place = graph.layout.place(step, points[0].members)
        carry = carriers.get(carrier).communicator(place)
        for dtype, sums in _by_dtype([p for p in points if p.combine is Combine.SUM]).items():
            name = f"autodist/all_reduce/{label}/{dtype}"
            for label_of_message, together in _messages(sums, carry.joins_all):
                message = f"{name}{label_of_message}"
                is_static = all(map(_is_static, together))
                inputs |= _fused(nodes, message, together, carry.all_reduce if is_static else carry.all_reduce_varying)
                if not carry.joins_all and place.members is None:
                    sizes.setdefault(carrier, {})[message] = sum(_size_bytes(point) or 0 for point in together)
        inputs |= _scattered(nodes, f"autodist/reduce_scatter/{label}", points, carry, place)
        inputs |= _passed(nodes, f"autodist/passed/{label}", points, carry, place)
        messages = [p for p in points if p.combine is Combine.CONCAT and p.even]
        if messages:
            inputs |= _gathered(nodes, f"autodist/all_gather/{label}", messages, carry)
        for point in points:
            if point.combine is Combine.CONCAT and not point.even:
                _check_strings(point, carrier)
                names = [f"autodist/all_gather/{label}/{synced}" for synced in point.synced]
                gathered = carry.all_gather_rows(nodes, names, point.local, point.dtypes)
                inputs |= dict(zip(point.synced, gathered, strict=True))
    for carrier, found in sizes.items():
        carriers.get(carrier).communicator(graph.layout.place(step)).spread(nodes, found)
    return graph.edited(nodes, inputs)


def _apart(graph: DistributedGraph, point: SyncPoint) -> str:
    """The suffix of a label for points that can't go with others: only some workers join, or not in all steps."""
    among = "" if point.members is None else f"/among_{'_'.join(map(str, point.members))}"
    return f"{among}/late" if any(node_of(tensor) in graph.late for tensor in point.given) else among


def _scattered(
    nodes: NodeList, name: str, points: Iterable[SyncPoint], carry: Communicator, place: CollectivePlace
) -> dict[str, str]:
    """The new inputs of the synced nodes of a sum, of which each worker gets its own rows."""
    return {
        p.synced[0]: carry.reduce_scatter(nodes, f"{name}/{p.name}", p.scattered, p.local[0], p.dtypes[0], place)
        for p in points
        if p.scattered is not None
    }


def _passed(
    nodes: NodeList, name: str, points: Iterable[SyncPoint], carry: Communicator, place: CollectivePlace
) -> dict[str, str]:
    """The new inputs of the synced nodes of what others pass to this worker."""
    found: dict[str, str] = {}
    for point in points:
        if point.passed is not None:
            label, dtype = f"{name}/{point.name}", point.dtypes[0]
            run, given = carry.pass_rows(nodes, label, point.passed, dtype, place)
            found |= zip(point.synced[len(point.local) :], given, strict=True)
            # A worker that is given nothing has to send as well.
            waits = [f"^{node}" for node in run]
            found[point.synced[0]] = nodes.add("Identity", f"{label}/kept", [point.local[0], *waits], T=dtype)
    return found


def _size_bytes(point: SyncPoint) -> int | None:
    """The size of a point's tensors of numbers with static shapes; None for any other point."""
    sizes = [size for size in point.shapes[0] or () if size is not None]
    is_known = point.shapes[0] is not None and len(sizes) == len(point.shapes[0])
    return prod(sizes) * itemsize(point.dtypes[0]) if is_known and _NUMBERS.match(point.dtypes[0]) else None


def _messages(points: Sequence[SyncPoint], joins_all: bool) -> Iterator[tuple[str, list[SyncPoint]]]:
    """Points that travel together, with a suffix for the name: all of known sizes, or successive small ones."""
    if not joins_all:
        yield from ((f"/{together[0].name}", together) for together in _buffers(points))
        return
    fixed = [point for point in points if _is_static(point)]
    if fixed:
        yield "", fixed
    yield from ((f"/{point.name}", [point]) for point in points if not _is_static(point))  # as large as the batch


def _buffers(points: Iterable[SyncPoint]) -> Iterator[list[SyncPoint]]:
    """Points that travel together: small ones that follow each other, until a buffer is full."""
    small: list[SyncPoint] = []
    filled = 0
    for point in points:
        size = _size_bytes(point)
        is_urgent = point.variable is None and point.awaited  # other points may exist only later in the step
        if size is None or size > JOINED_BYTES or is_urgent:
            yield [point]
            continue
        if filled + size > _BUFFER_BYTES:
            yield small
            small, filled = [], 0
        small.append(point)
        filled += size
    if small:
        yield small


def _check_strings(point: SyncPoint, carrier: str) -> None:
    if "string" in point.dtypes and not carriers.get(carrier).carries_strings:
        others = carriers.names_of(lambda one: one.carries_strings)
        raise CaptureError(
            f"workers need each other's strings, op `{point.name}`, and {carrier} does not carry strings",
            hint="compute with strings in `dataset.map`, or use a strategy whose `graph.communicator` is "
            f"{' or '.join(map(repr, others))}",
        )


def _fused(nodes: NodeList, name: str, points: list[SyncPoint], all_reduce: Any) -> dict[str, str]:
    """One buffer for all points; returns what each synced node reads from now on."""
    dtype = points[0].dtypes[0]
    if len(points) == 1:
        return {points[0].synced[0]: all_reduce(nodes, name, points[0].local[0], dtype)}
    sizes = [prod(_static(point)) for point in points]
    flat = [nodes.reshape(f"{name}/flat/{p.name}", p.local[0], [-1], dtype) for p in points]
    buffer = nodes.concat(f"{name}/buffer", flat, dtype)
    reduced = all_reduce(nodes, name, buffer, dtype)
    lengths = nodes.constant(f"{name}/sizes", sizes, "int32")
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    split = nodes.add("SplitV", f"{name}/split", [reduced, lengths, dim], num_split=len(points), T=dtype, Tlen="int32")
    return {
        p.synced[0]: nodes.reshape(f"{name}/shaped/{p.name}", f"{split}:{k}", _static(p), dtype)
        for k, p in enumerate(points)
    }


def _by_dtype(points: Iterable[SyncPoint]) -> dict[str, list[SyncPoint]]:
    """Compressors may have given the messages of one group several dtypes."""
    found: dict[str, list[SyncPoint]] = {}
    for point in points:
        found.setdefault(point.dtypes[0], []).append(point)
    return found


def _gathered(nodes: NodeList, name: str, points: list[SyncPoint], carry: Communicator) -> dict[str, str]:
    """One buffer for all messages, whatever their dtypes; returns what each synced node reads from now on."""
    shapes = [_static(point)[1:] for point in points]
    parts = [
        to_words(nodes, f"{name}/words/{p.name}", p.local[0], shape, p.dtypes[0])
        for p, shape in zip(points, shapes, strict=True)
    ]
    sizes = [num_words(shape, p.dtypes[0]) for p, shape in zip(points, shapes, strict=True)]
    row = nodes.reshape(f"{name}/row", nodes.concat(f"{name}/buffer", parts, "int32"), [1, sum(sizes)], "int32")
    rows = carry.all_gather_even(nodes, name, row, "int32")
    lengths = nodes.constant(f"{name}/sizes", sizes, "int32")
    dim = nodes.constant(f"{name}/dim", 1, "int32")
    split = nodes.add("SplitV", f"{name}/split", [rows, lengths, dim], num_split=len(points), T="int32", Tlen="int32")
    return {
        p.synced[0]: from_words(nodes, f"{name}/shaped/{p.name}", f"{split}:{k}", shapes[k], p.dtypes[0])
        for k, p in enumerate(points)
    }


def _is_static(point: SyncPoint) -> bool:
    return point.shapes[0] is not None and None not in point.shapes[0]


def _static(point: SyncPoint) -> tuple[int, ...]:
    shape = point.shapes[0]
    assert shape is not None, point.name
    assert None not in shape, point.name
    return tuple(int(size or 0) for size in shape)
