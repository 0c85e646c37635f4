"""The engine of a worker in a search: it measures the first training step instead of training by it."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from autodist.coordination import Worker
from autodist.graph import CapturedStep
from autodist.resource_spec import ResourceSpec
from autodist.runtime._engine import Engine
from autodist.runtime._recorder import Recorder
from autodist.runtime.data import Arguments, Convention
from autodist.runtime.measuring._ordered_trials import ORDERED, OrderedTrials


class TrialEngine(Engine):
    """Runs a script up to its first training step, measures what the launcher orders for it, and ends the script.

    Args:
        worker: This process.
        spec: The cluster.
        strategy: The strategy that would train without a search.
        convention: What a batch and a loss mean.
        recorder: As for :class:`Engine`.
    """

    captures_all = True

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        strategy: Any,
        convention: Convention,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(worker, spec, strategy, convention, recorder)
        self._trials = OrderedTrials(worker, spec, convention)

    def _compiled(self, captured: CapturedStep, arguments: Arguments, local: bool) -> NoReturn:
        """Measure the step, and end the script, which a search needs no further.

        Raises:
            SystemExit: There are no more orders.
        """
        brings_own = local and not arguments.is_local  # every worker brings a batch of its own
        self._trials.run(captured, arguments, local=local, own=brings_own)
        raise SystemExit(0)


def engine_class() -> type[Engine]:
    """The engine that this process' environment asks for."""
    return TrialEngine if os.environ.get(ORDERED) else Engine
