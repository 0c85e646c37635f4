"""Aspects of how servers and workers exchange values: stations, proxies, and staleness."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext
from autodist.search.space.aspects._uneven_links import has_uneven_links
from autodist.strategies import PSSynchronizer


@final
class LocalAggregators(Aspect):
    """Whether a station sums gradients and fetches values for all replicas of its host (reduction hierarchy)."""

    name: ClassVar[str] = "transfer"
    words: ClassVar[frozenset[str]] = frozenset({"transfer"})

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """Without stations, and with them where a host has several replicas."""
        yield choice
        if choice.synchronizer == PSSynchronizer.type and any(
            len(host.replica_devices) > 1 for host in context.spec.hosts
        ):
            yield dataclasses.replace(choice, transfer=True)


@final
class Proxies(Aspect):
    """Whether every worker reads from a copy of its own.

    Worth it where a value is read more than once, and for a host with a slow link that serves nothing itself: values
    come while gradients go, instead of after each other.
    """

    name: ClassVar[str] = "proxy"
    words: ClassVar[frozenset[str]] = frozenset({"proxy"})

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """Without, and with one for dense variables that a step reads several times, or where some links are slower."""
        yield choice
        is_dense = not any(variable.is_sparse for variable in context.variables)
        reads = max(context.graph.uses[variable.name].reads for variable in context.variables)
        if choice.synchronizer == PSSynchronizer.type and is_dense and (reads > 1 or has_uneven_links(context.spec)):
            yield dataclasses.replace(choice, local_proxy=True)


@final
class Staleness(Aspect):
    """How far the fastest worker may be ahead, or that no worker waits.

    Simulators assume that all workers wait for each other in each step. The gain without waiting depends on how uneven
    the hosts' steps are, which is not known beforehand.
    """

    name: ClassVar[str] = "staleness"
    changes_results: ClassVar[bool] = True
    is_simulated: ClassVar[bool] = False
    words: ClassVar[frozenset[str]] = frozenset({"staleness", "async"})

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """None, some steps, and no bound."""
        yield choice
        if choice.synchronizer == PSSynchronizer.type:
            yield from (dataclasses.replace(choice, staleness=steps) for steps in (1, 3))
            yield dataclasses.replace(choice, sync=False)
