"""The pipeline: the kernels in their order, and what they have in common."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autodist.errors import GraphError
from autodist.garbage import garbage_waits
from autodist.graph import TrainingGraph, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel, Layout, Pass, Preparation
from autodist.kernels._compiled import Compiled
from autodist.kernels._encode import Encode
from autodist.kernels._extra import ExtraKernel, extra_kernels, insert
from autodist.kernels._place import Place
from autodist.kernels._prune import Prune
from autodist.kernels._settle import Settle
from autodist.kernels._synchronizers import bound, refuse_orphans
from autodist.kernels._updates_in_turn import UpdatesInTurn
from autodist.kernels.collectives import AllReduceGradients, AllReduceState, BroadcastFactors, FactorGradients, InTurn
from autodist.kernels.delay import DelayedGradients
from autodist.kernels.replicate import Replicate
from autodist.kernels.requests import Requests
from autodist.kernels.servers import AsynchronousServers, LocalAggregation, LocalProxies, ParameterServers, StreamValues
from autodist.kernels.shard import Partition
from autodist.kernels.tile import MadeForTiles, OwnParts, ServedParts
from autodist.strategies import Strategy

_MOST_TOLD = 20
"""The most lines that an error message lists: a kernel that fails may have thousands of problems."""

Observer = Callable[[str, DistributedGraph], None]


@dataclass(frozen=True)
class KernelTiming:
    """How long one kernel took."""

    kernel: str
    duration_s: float


PREPARATIONS: tuple[Preparation, ...] = (
    # This pass plans with whole variables, as costs do.
    MadeForTiles(),
    # All passes that follow (factors, replicas, servers, collectives) know whole variables only.
    Partition(),
    # A shard's gradient may have factors as well. Replicas then join two tensors of rows instead of a gradient.
    FactorGradients(),
)


def prepare(graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
    """G and S in terms of the parts that the strategy makes; both are the arguments themselves if it makes none.

    Raises:
        StrategyError: A variable can't be cut, or a gradient not be factored.
    """
    for preparation in PREPARATIONS:
        graph, strategy = preparation.apply(graph, strategy)
    return graph, strategy


def check_order(passes: Iterable[Pass]) -> None:
    """Check that each pass comes after those that provide the facts that it needs.

    Raises:
        GraphError: A pass does not; the message names it.
    """
    every, provided = list(passes), set[Fact]()
    for one in every:
        for fact in sorted(one.needs - provided, key=lambda fact: fact.name):
            by = [f"`{other.name}`" for other in every if fact in other.provides]
            raise GraphError(
                f"`{one.name}` needs that {fact.value}; {' or '.join(by) or 'nothing'} sees to it, and has to precede "
                f"it; the order is {', '.join(other.name for other in every)}",
                hint="mend the order in `kernels_for`, or what the pass `needs`",
            )
        provided |= one.provides


def kernels_for(
    graph: TrainingGraph,
    strategy: Strategy,
    *,
    step: str = "step",
    container: str = "",
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto",
    extras: Sequence[ExtraKernel] | None = None,
    overlap: bool = True,
    placement: Mapping[str, str] | None = None,
    updates_in_turn: bool = False,
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
        placement: By variable that an earlier step has put on a device, that device.
        updates_in_turn: Whether updates wait for each other, since memory is short.

    Raises:
        GraphError: A kernel precedes another one that it needs.
        StrategyError: A kernel of another package has no place here, or a synchronizer has no kernel.
    """
    own = _ours(
        graph,
        strategy,
        step,
        container,
        gradient_reduction,
        overlap=overlap,
        placement=placement or {},
        updates_in_turn=updates_in_turn,
    )
    kernels = insert(own, extra_kernels() if extras is None else extras)
    refuse_orphans(strategy, kernels)
    check_order((*PREPARATIONS, *kernels))
    return bound(kernels, strategy, step)


def _ours(
    graph: TrainingGraph,
    strategy: Strategy,
    step: str,
    container: str,
    gradient_reduction: Literal["auto", "mean", "sum"],
    *,
    overlap: bool,
    placement: Mapping[str, str],
    updates_in_turn: bool,
) -> tuple[Kernel, ...]:
    """Our own kernels in their order; see :func:`kernels_for`."""
    # Each has its place because of its neighbours:
    return (
        # Parts of variables have names by now; servers and their readers must know what other steps have decided.
        Settle(placement),
        # First of those that change nodes: all others work on what replicas have joined, where workers are to meet.
        Replicate(graph, gradient_reduction, strategy.is_asynchronous),
        # All that follows exchanges what comes out of the queue of gradients, whenever they were computed.
        DelayedGradients(strategy, step),
        # Servers of parts take points between groups before parts of other workers, and their slots, are gone.
        ServedParts(strategy, step),
        # Parts of tiled variables need no points. Nodes for other workers' parts go before later kernels see them.
        OwnParts(strategy),
        *(() if overlap else (InTurn(),)),
        # Hosts' sums must be there before they are encoded: what leaves a host is one message, not one per replica.
        LocalAggregation(strategy),
        # Encoders replace gradients by messages, which are all that servers and collectives see afterwards.
        Encode(strategy, step, container),
        # Servers take the points that they serve, before anything is left to collectives.
        AsynchronousServers(strategy, step, container),
        # Streams bring values along with the gradients' messages, so servers need not be asked for those.
        StreamValues(strategy, step),
        ParameterServers(strategy, step, container),
        # Copies of served values take the remaining reads of servers.
        LocalProxies(strategy, container),
        # Collectives take the gradients that are left, then small state: it may wait, gradients may not.
        AllReduceGradients(strategy, step),
        BroadcastFactors(strategy, step),
        AllReduceState(strategy, step),
        # It is known by now for whom workers wait, and no such node may wait for an update of another variable.
        *((UpdatesInTurn(),) if updates_in_turn else ()),
        # Only now does every node exist that needs a device; handles of variables get theirs as well.
        Place(container),
        # Workers ask for the nodes that are placed on another worker's device, which has no TensorFlow server.
        Requests(step),
        Prune(),
        # What is left is where it will run. No kernel looks into calls.
        Compiled(),
    )


def rewrite(
    graph: TrainingGraph, layout: Layout, kernels: Sequence[Kernel], observer: Observer | None = None
) -> tuple[DistributedGraph, tuple[KernelTiming, ...]]:
    """Apply the kernels one after another, checking the graph after each.

    Args:
        graph: G.
        layout: This worker among all.
        kernels: See :func:`kernels_for`.
        observer: Called with each kernel's name and result, to dump graphs for one.

    Returns:
        The graph that this worker runs, and how long each kernel took.
    """
    current = DistributedGraph.of(graph, layout)
    timings: list[KernelTiming] = []
    with garbage_waits():
        for kernel in kernels:
            started = time.perf_counter()
            made = kernel.apply(current)
            if made is not current:
                made = made.indexed_anew() if isinstance(kernel, ExtraKernel) else made
                _check(kernel, made)
                current = made if made.valid is made.graph_def else made.replace(valid=made.graph_def)
            del made  # the graph before this one is not kept while the next kernel runs
            timings.append(KernelTiming(kernel.name, time.perf_counter() - started))
            if observer is not None:
                observer(kernel.name, current)
    return current, tuple(timings)


def _check(kernel: Kernel, graph: DistributedGraph) -> None:
    """Check that a kernel's result has unique nodes, all inputs, and all tensors and nodes that it promises.

    The editor has checked the first two, unless an extra kernel has not used it.

    Raises:
        GraphError: Lists everything that is wrong.
    """
    is_known = graph.valid is graph.graph_def and not isinstance(kernel, ExtraKernel)
    wrong = [] if is_known else _invalid(graph)
    if not isinstance(kernel, Prune):
        promised = (*graph.outputs, *graph.local_outputs, *graph.effects, *(n for p in graph.points for n in p.synced))
        wrong += [f"it lost `{tensor}`" for tensor in (*promised, *graph.kept) if node_of(tensor) not in graph.nodes]
    if wrong:
        lines = "\n".join(f"  - {line}" for line in wrong[:_MOST_TOLD])
        raise GraphError(
            f"the kernel `{kernel.name}` made a graph that is not valid:\n{lines}",
            hint="`--dump-graphs DIR` shows the graph after each kernel; if the kernel is not from a package of yours, "
            "please report this",
        )


def _invalid(graph: DistributedGraph) -> list[str]:
    counts = Counter(node.name for node in graph.graph_def.node)
    wrong = [f"it made node `{name}` twice" for name, count in counts.items() if count > 1]
    inputs = {tensor: node.name for node in graph.graph_def.node for tensor in node.input}
    missing = ((name, tensor) for tensor, name in inputs.items() if node_of(tensor) not in counts)
    return [*wrong, *(f"it left `{name}` with the missing input `{tensor}`" for name, tensor in missing)]
