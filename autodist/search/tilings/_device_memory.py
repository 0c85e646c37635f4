"""The memory of each device in a tiling, and the tiling that keeps within a limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

from autodist.errors import SpaceEmpty
from autodist.search.tilings._baseline_tilings import Baseline, baseline_tiling
from autodist.search.tilings._coarse_graph import CoarseGraph
from autodist.search.tilings._domains import tile_bytes
from autodist.search.tilings._tiling_search import FoundTiling, SearchOptions, find_tiling
from autodist.wording import size_text

_STEPS = 12
_FIRST_WEIGHT, _LAST_WEIGHT = 1e-3, 1e5


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of one device.

    Attributes:
        stored: Bytes of its tiles of variables and slots.
        step: The most that tiles of other tensors take at one time, with what operators gather or have to sum.
    """

    stored: float
    step: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.stored + self.step


def device_memory(graph: CoarseGraph, lengths: tuple[int, ...], found: FoundTiling) -> DeviceMemory:
    """Estimate what a device keeps, operators being run in the graph's order.

    A tensor takes memory from the operator that makes it to the last one that takes it. Tensors that are gathered for
    an operator, or made by it as terms of a sum, take memory while it runs.
    """
    tensors = list(zip(graph.tensors, found.layouts, strict=True))
    stored = sum(tensor.stored * tile_bytes(tensor, states, lengths) for tensor, states in tensors)
    made: dict[int, int] = {}
    last: dict[int, int] = {}
    beside = [0.0] * len(graph.operators)
    for time, (operator, cut) in enumerate(zip(graph.operators, found.cuts, strict=True)):
        for place, t in enumerate(operator.operands):
            tensor, states = tensors[t]
            needed = tuple(form.states[place] for form in cut)
            if needed != states:
                beside[time] += tile_bytes(tensor, needed, lengths)
            if not tensor.stored:
                made.setdefault(t, time)
                last[t] = time
    changes: dict[int, float] = defaultdict(float)
    for t, time in made.items():
        changes[time] += tile_bytes(*tensors[t], lengths)
        changes[last[t] + 1] -= tile_bytes(*tensors[t], lengths)
    live = accumulate(changes[time] for time in range(len(graph.operators)))
    return DeviceMemory(stored, max((kept + more for kept, more in zip(live, beside, strict=True)), default=0.0))


def tiling_within(
    graph: CoarseGraph,
    lengths: tuple[int, ...],
    options: SearchOptions,
    limit_bytes: float | None,
    needs: Callable[[FoundTiling], float],
) -> tuple[FoundTiling, float]:
    """Return the tiling that moves the fewest bytes among those found that need no more than a limit, and its need.

    Data parallelism is among them.

    A price per byte that is kept is raised until the tiling is within the limit, and then lowered as far as possible.

    Raises:
        SpaceEmpty: None is found; the message gives the least need of a device.
    """
    rule = baseline_tiling(graph, lengths, Baseline.DATA, options.tiles, options.exchange_bytes)
    best = min(find_tiling(graph, lengths, options), rule, key=lambda tiling: tiling.moved_bytes)
    needed = needs(best)
    if limit_bytes is None or needed <= limit_bytes:
        return best, needed
    low, high, least = options.memory_weight, _FIRST_WEIGHT, needed
    fits: tuple[FoundTiling, float] | None = None
    for _ in range(_STEPS):
        weight = high if fits is None else (max(low, _FIRST_WEIGHT / 8) * high) ** 0.5
        found = find_tiling(graph, lengths, replace(options, memory_weight=weight))
        needed = needs(found)
        least = min(least, needed)
        if needed <= limit_bytes:
            high = weight
            if fits is None or found.moved_bytes < fits[0].moved_bytes:
                fits = found, needed
        elif fits is None and weight > _LAST_WEIGHT:
            break
        else:
            low, high = weight, high * 8 if fits is None else high
    if fits is None:
        raise SpaceEmpty(
            f"no tiling over {prod(lengths)} devices keeps within {size_text(limit_bytes)} per device, "
            f"the least that was found needs {size_text(least)}",
            hint="raise `memory_gb`, of `Tiled` or in the spec, or use more devices",
        )
    return fits
