"""From a traced step to the layouts of its variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from autodist.cost.resharding import WHOLE, places_of
from autodist.errors import StrategyError
from autodist.garbage import garbage_waits
from autodist.graph import TrainingGraph
from autodist.resource_spec import Mesh
from autodist.search.tilings._coarsen import CoarseStep, coarsen
from autodist.search.tilings._device_memory import device_memory, tiling_within
from autodist.search.tilings._domains import States, is_fair
from autodist.search.tilings._factor_tables import Tables
from autodist.search.tilings._tiling_search import FoundTiling, SearchOptions
from autodist.strategies.tiling import TensorLayout, TilingPlan

_MOST_AXES = 4
_TIE = 1e-6
"""The price of a kept byte in moved bytes: it only decides between tilings that move equally many bytes."""


@garbage_waits()
def plan_tiling(
    graph: TrainingGraph,
    mesh: Mesh,
    memory_limit_bytes: int | None = None,
    needs: Callable[[TilingPlan], float] | None = None,
    exchange_bytes: float = 0.0,
) -> TilingPlan:
    """Return the layouts of a step's variables with which the fewest bytes are moved.

    All tensors of the step are laid out for that. Inputs with a batch are cut along it, as every device reads its own
    rows.

    Args:
        graph: The step, captured for a batch of known size.
        mesh: The devices; it has up to four axes.
        memory_limit_bytes: The most bytes that each device may keep.
        needs: Gives the bytes that a device keeps under a tiling; by default, tiles of variables, slots and
            activations, and tensors that operators gather.
        exchange_bytes: The price of an exchange that the computation waits for, in moved bytes:
            :func:`~autodist.search.tilings.bytes_of_an_exchange`.

    Raises:
        StrategyError: The step is only described, the number of its examples is not known, or the mesh has too many
            axes.
        SpaceEmpty: No tiling keeps within the limit; the message gives the least need.
    """
    axes = tuple(axis for axis in mesh.axes if axis[1] > 1)
    if len(axes) > _MOST_AXES:
        raise StrategyError(
            f"the mesh {mesh.text} has {len(axes)} axes, allowed: up to {_MOST_AXES}",
            hint="join axes, as `flat()` does",
        )
    step = _coarse(graph)
    step = replace(step, graph=replace(step.graph, unequal=len(axes) == 1))
    lengths = tuple(length for _, length in axes)
    if not axes:
        return TilingPlan(mesh, {v.name: TensorLayout.whole(len(v.shape)) for v in graph.variables})
    options = SearchOptions(fixed=_inputs(step, lengths), memory_weight=_TIE, exchange_bytes=exchange_bytes)

    def needs_of(found: FoundTiling) -> float:
        if needs is None:
            return device_memory(step.graph, lengths, found).total
        return needs(_plan(step, graph, mesh, found))

    found, needed = tiling_within(step.graph, lengths, options, memory_limit_bytes, needs_of)
    moved_bytes = Tables(step.graph, lengths).once(found.layouts, found.cuts)
    return replace(_plan(step, graph, mesh, found), moved_bytes=moved_bytes, device_bytes=needed)


def _plan(step: CoarseStep, graph: TrainingGraph, mesh: Mesh, found: FoundTiling) -> TilingPlan:
    """The layouts of variables in a tiling that was found."""
    names = tuple(name for name, length in mesh.axes if length > 1)
    layouts = {}
    for variable in graph.variables:
        place, rank = step.variables.get(variable.name), len(variable.shape)
        states = (WHOLE,) * len(names) if place is None else found.layouts[place]
        layouts[variable.name] = TensorLayout(*places_of(states, names, rank))
    others = _gathered(step, found)
    gathered = frozenset(name for name, place in step.variables.items() if place in others)
    return TilingPlan(mesh, layouts, gathered=gathered, whole=step.whole)


def _coarse(graph: TrainingGraph) -> CoarseStep:
    examples = _examples(graph)
    try:
        return coarsen(graph, examples)
    except StrategyError:
        raise
    except ValueError as error:
        raise StrategyError(f"the step can't be for {examples} examples: {error}") from error


def _gathered(step: CoarseStep, found: FoundTiling) -> set[int]:
    """The tensors that some operator takes or makes in another layout than theirs."""
    return {
        t
        for operator, cut in zip(step.graph.operators, found.cuts, strict=True)
        for place, t in enumerate(operator.operands)
        if tuple(form.states[place] for form in cut) != found.layouts[t] and set(found.layouts[t]) != {WHOLE}
    }


def _examples(graph: TrainingGraph) -> int:
    if graph.graph_def is None:
        raise StrategyError("the step is only described, allowed: one with its GraphDef", hint="capture it")
    examples = graph.batch_size or graph.fixed_rows or (None if graph.has_batch else 1)
    if examples is None:
        raise StrategyError(
            "the step is for a batch of any size, allowed: one of known size",
            hint="say it by `graph.with_batch_size(n)`",
        )
    return examples


def _inputs(step: CoarseStep, lengths: tuple[int, ...]) -> dict[int, tuple[States, ...]]:
    """The layouts that inputs may have: rows cut along as many axes as they can be."""
    found = {}
    for place in step.inputs.values():
        if 0 not in step.graph.dims[place]:  # no operator can take a part of its rows
            continue
        ways = [w for w in product((0, WHOLE), repeat=len(lengths)) if is_fair(step.graph, place, w, lengths)]
        fewest = min(way.count(WHOLE) for way in ways)
        found[place] = tuple(way for way in ways if way.count(WHOLE) == fewest)
    return found
