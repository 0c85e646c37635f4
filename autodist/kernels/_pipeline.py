"""The pipeline: the kernels in their order, and what they have in common."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autodist.graph import TrainingGraph, node_of
from autodist.kernels._all_reduce import AllReduceGradients, AllReduceState
from autodist.kernels._base import DistributedGraph, Kernel, Layout
from autodist.kernels._broadcast import BroadcastFactors
from autodist.kernels._encode import Encode
from autodist.kernels._extra import ExtraKernel, extra_kernels, insert
from autodist.kernels._in_turn import InTurn
from autodist.kernels._pack_reads import PackReads
from autodist.kernels._place import Place
from autodist.kernels._proxies import LocalProxies
from autodist.kernels._prune import Prune
from autodist.kernels._ps import ParameterServers
from autodist.kernels._relaxed import RelaxedServers
from autodist.kernels._replicate import Replicate
from autodist.kernels._requests import Requests
from autodist.kernels._stations import Stations
from autodist.kernels._stream_values import StreamValues
from autodist.strategies import Strategy

__all__ = ["KernelTiming", "kernels_for", "rewrite"]

Observer = Callable[[str, DistributedGraph], None]


@dataclass(frozen=True)
class KernelTiming:
    """How long one kernel took."""

    kernel: str
    duration_s: float


def kernels_for(
    graph: TrainingGraph,
    strategy: Strategy,
    *,
    step: str = "step",
    container: str = "",
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto",
    extras: Sequence[ExtraKernel] | None = None,
    overlap: bool = True,
) -> tuple[Kernel, ...]:
    """The kernels that turn G into what one worker runs under a strategy, in order.

    Args:
        graph: G.
        strategy: S.
        step: Name of the compiled step, the same on all workers and unlike that of any other step.
        container: Resource container of the variables, the same for all steps that share them.
        gradient_reduction: Whether the loss is a mean or a sum over the batch; ``"auto"`` finds out.
        extras: Kernels of others; None takes those of installed packages.
        overlap: Whether gradients leave as soon as they exist; else all of them wait for the last one.
    """
    own: tuple[Kernel, ...] = (
        Replicate(graph, gradient_reduction, strategy.is_relaxed),
        *(() if overlap else (InTurn(),)),
        Stations(strategy),
        Encode(strategy, step, container),
        RelaxedServers(strategy, step, container),
        StreamValues(strategy, step),
        ParameterServers(strategy, step, container),
        LocalProxies(strategy, container),
        PackReads(strategy),
        AllReduceGradients(strategy, step),
        BroadcastFactors(strategy, step),
        AllReduceState(strategy, step),
        Place(container),
        Requests(step),
        Prune(),
    )
    return insert(own, extra_kernels() if extras is None else extras)


def rewrite(
    graph: TrainingGraph, layout: Layout, kernels: Sequence[Kernel], observer: Observer | None = None
) -> tuple[DistributedGraph, tuple[KernelTiming, ...]]:
    """Apply the kernels one after another, checking the graph after each.

    Args:
        graph: G.
        layout: Who this worker is.
        kernels: See :func:`kernels_for`.
        observer: Called with each kernel's name and result, to dump graphs for one.

    Returns:
        The graph that this worker runs, and how long each kernel took.
    """
    current = DistributedGraph.of(graph, layout)
    timings: list[KernelTiming] = []
    with _garbage_waits():
        for kernel in kernels:
            started = time.perf_counter()
            before, current = current, kernel.apply(current)
            if current is not before:
                _check(kernel.name, current)
            timings.append(KernelTiming(kernel.name, time.perf_counter() - started))
            if observer is not None:
                observer(kernel.name, current)
    return current, tuple(timings)


@contextlib.contextmanager
def _garbage_waits() -> Iterator[None]:
    """No garbage collection meanwhile.

    Kernels make many objects and no cycles. Each full collection that this sets off looks in vain through all that
    TensorFlow's tracing has left behind, which on a large graph takes as long as a kernel.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check(kernel: str, graph: DistributedGraph) -> None:
    """A kernel's result has no node twice, no input from nowhere, and delivers what it promises."""
    names: set[str] = set()
    inputs: dict[str, str] = {}
    for node in graph.graph_def.node:
        name = node.name
        assert name not in names, f"{kernel} made node {name} twice"
        names.add(name)
        inputs.update(dict.fromkeys(node.input, name))
    for tensor, name in inputs.items():
        assert node_of(tensor) in names, f"{kernel} left {name} with the missing input {tensor}"
    promised = (*graph.outputs, *graph.local_outputs, *graph.effects, *(n for p in graph.points for n in p.synced))
    for tensor in (*promised, *graph.kept):
        assert node_of(tensor) in names or kernel == Prune.name, f"{kernel} lost {tensor}"
