"""Which kernel rewrites graphs for which synchronizer, and kernels that other packages bring with theirs."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, final

from autodist.errors import StrategyError
from autodist.kernels._base import DistributedGraph, Kernel, SyncPoint
from autodist.kernels._extra import ExtraKernel
from autodist.strategies import Strategy, Synchronizer

S = TypeVar("S", bound=Synchronizer)


def given_to(kind: type[S], strategy: Strategy, variable: str | None) -> S | None:
    """A variable's synchronizer, if it is of exactly this class: derived classes have other kernels.

    For a tiled variable it is also the synchronizer of its parts between groups of replicas, if that is of the class.
    """
    if variable is None:
        return None
    found: Synchronizer = strategy.config(variable).synchronizer
    if type(found) is not kind and found.between_groups is not None:
        found = found.between_groups
    return found if type(found) is kind else None


@dataclass(frozen=True)
class SynchronizerKernel(ExtraKernel, Generic[S]):
    """The kernel of a synchronizer that another package brings.

    It works in every run on a machine that has its package, and does nothing where no variable has its synchronizer.
    """

    after: ClassVar[str] = "all-reduce"

    synchronizer: ClassVar[type[Synchronizer]]
    """The synchronizer whose gradients it joins."""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """The graph unchanged: without a strategy there is nothing to do."""
        return graph

    @abc.abstractmethod
    def meet(self, graph: DistributedGraph, points: Sequence[tuple[SyncPoint, S]], step: str) -> DistributedGraph:
        """The graph in which the workers' gradients are joined at these points; there is more than one worker.

        Args:
            graph: The graph of one worker.
            points: Gradients whose variables have the synchronizer, each with it.
            step: Name of the compiled step; see :meth:`~autodist.kernels.Layout.place`.
        """


@final
@dataclass(frozen=True)
class _Bound(Kernel):
    """A synchronizer's kernel in the pipeline of one strategy."""

    name: str  # type: ignore[misc]
    kernel: SynchronizerKernel[Synchronizer]
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        points = list(self._points(graph)) if graph.layout.world_size > 1 else []
        return self.kernel.meet(graph, points, self.step) if points else graph

    def _points(self, graph: DistributedGraph) -> Iterator[tuple[SyncPoint, Synchronizer]]:
        for point in graph.points:
            found = given_to(self.kernel.synchronizer, self.strategy, point.variable)
            if found is not None:
                yield point, found


def bound(kernels: Sequence[Kernel], strategy: Strategy, step: str) -> tuple[Kernel, ...]:
    """The kernels, those of synchronizers with the strategy that they rewrite for."""
    return tuple(
        _Bound(kernel.name, kernel, strategy, step) if isinstance(kernel, SynchronizerKernel) else kernel
        for kernel in kernels
    )


def refuse_orphans(strategy: Strategy, kernels: Iterable[Kernel]) -> None:
    """Check that there is a kernel for each synchronizer of a strategy.

    Raises:
        StrategyError: There is none for some.
    """
    known = {kind.type for kernel in kernels if (kind := getattr(kernel, "synchronizer", None)) is not None}
    orphans = sorted({found.type for _, found in strategy.synchronizers} - known)
    if orphans:
        raise StrategyError(
            f"no kernel rewrites graphs for the synchronizer {' and '.join(map(repr, orphans))}",
            hint="the package that brings a synchronizer also brings a `SynchronizerKernel`, by an entry point of the "
            "group `autodist.kernels`",
        )
