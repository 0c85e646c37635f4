"""Training steps whose batches have fewer rows than there are replicas: these share each example, along another dim.

An image of a thousand by a thousand pixels can be all of a batch. If replicas shared such a batch by its rows, one of
them would compute all of it. Instead each has a part of the height, say, and is given what lies around it.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autodist.coordination import Worker
from autodist.cost.operations import work_s
from autodist.errors import CaptureError
from autodist.graph import CapturedStep, draws_by_kernels
from autodist.graph.layouts import ArgumentLayouts, NoPlanError, cut_arguments
from autodist.resource_spec import BYTES_PER_GBIT, ResourceSpec
from autodist.runtime._arguments_told import bytes_of, cuts_of
from autodist.runtime._compile import Compiler
from autodist.runtime._execution import Execution
from autodist.runtime._step import CompiledStep
from autodist.runtime.data import Arguments, Convention

_LOG = logging.getLogger("autodist")
_GAIN = 1.2
"""Examples are cut if a step is expected to be faster by this factor."""
_EXCHANGE_S = 0.2e-3
"""The time of an exchange besides its bytes and the latency of the link."""


class SmallBatches:
    """Finds the steps whose examples replicas share, and compiles them.

    Args:
        worker: This process.
        spec: The cluster.
        convention: What a batch and a loss mean.
        execution: Runs compiled steps.
        compiler: Returns the current compiler.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        convention: Convention,
        execution: Execution,
        compiler: Callable[[], Compiler],
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._convention = convention
        self._execution = execution
        self._compiler = compiler
        self._by_rows: set[Any] = set()
        """Kinds of calls whose batches replicas share by rows, although there are few."""
        self._dims: dict[Any, tuple[int | None, ...]] = {}
        """By step and number of arguments, the dims that were found for images of some size; None for whole."""

    def ready(
        self,
        place: Any,
        arguments: Arguments,
        capture: Callable[[Compiler, Arguments, int], CapturedStep],
        compile_step: Callable[[CapturedStep, Arguments], CompiledStep],
        *,
        local: bool = False,
    ) -> tuple[CompiledStep, Arguments] | None:
        """The compiled step of a call whose examples replicas share, and its arguments; None for another call.

        Args:
            place: What tells the calls of the step from those of others.
            arguments: Those of the call, with what is split.
            capture: Traces the step, and describes it for that many rows.
            compile_step: Compiles it.
            local: Whether the arguments are this worker's part of the global batch.
        """
        rows = len(arguments.batch[0]) if arguments.batch else 0
        if not 0 < rows < len(self._spec.replicas) or not self._may_share(arguments, local):
            return None
        whole = replace(arguments, split=(False,) * len(arguments.arrays), open_dims=(), ties=())
        key = place, whole.key
        if key in self._by_rows or (place, arguments.key) in self._execution.steps:
            return None  # where other batches were shared by rows, this may be the last one, with fewer
        if key not in self._execution.steps:
            self._execution.settle()
            step = self._new_step(place, arguments, lambda: capture(self._compiler(), arguments, rows), compile_step)
            if step is None:
                self._by_rows.add(key)
                return None
            self._execution.steps[key] = step
        return self._execution.steps[key], whole

    def _may_share(self, arguments: Arguments, local: bool) -> bool:
        """Whether all workers have the whole batch, each of whose lengths is known, and losses are as on one device."""
        is_known = not (arguments.composites or any(arguments.open_dims))
        is_whole = not (local or arguments.is_local)
        return is_known and is_whole and self._convention.gradient_reduction == "auto"

    def _new_step(
        self,
        place: Any,
        arguments: Arguments,
        capture: Callable[[], CapturedStep],
        compile_step: Callable[[CapturedStep, Arguments], CompiledStep],
    ) -> CompiledStep | None:
        """Compile a step that is not known yet; None if replicas share its batches by rows."""
        count = len(self._spec.replicas)
        if any(strategy.groups_of_replicas > 1 for strategy in self._compiler().strategies):
            return None
        if all(size < count for array in arguments.arrays for size in array.shape[1:]):
            return None
        try:
            captured = capture()
            cuts = None if draws_by_kernels(captured.graph) else self._cuts(place, captured)
            if cuts is None:
                return None
            step = compile_step(replace(captured, graph=captured.graph.with_tiles(cuts.dims)), arguments)
        except (CaptureError, NoPlanError) as error:
            _LOG.debug("replicas share a small batch by rows, they can't share each example: %s", error)
            return None
        self._tell(arguments, cuts)
        return step

    def _cuts(self, place: Any, captured: CapturedStep) -> ArgumentLayouts | None:
        """How the arguments of a step are cut; None if that does not pay, or is impossible.

        Images of another size are cut along the same dims: a search takes longer than the rest of what is done for it.
        """
        count, shapes = len(self._spec.replicas), [given.shape or () for given in captured.graph.inputs]
        known = self._dims.get((place, len(shapes)))
        is_fit = known is not None and all(
            dim is None or (dim < len(shape) and (shape[dim] or 0) >= count)
            for dim, shape in zip(known, shapes, strict=True)
        )
        cuts = cut_arguments(captured.graph, count, self._worker.world_size, known if is_fit else None)
        if cuts is None or not self._pays(captured, cuts):
            return None
        if all(len(dims) < 2 for dims in cuts.dims):
            self._dims[place, len(shapes)] = tuple(dims[0] if dims else None for dims in cuts.dims)
        return cuts

    def _pays(self, captured: CapturedStep, cuts: ArgumentLayouts) -> bool:
        """Whether replicas that share examples are expected to be faster than one that computes them."""
        alone_s = work_s(captured.graph, captured.graph.batch_size or 1)
        return alone_s > _GAIN * (alone_s / len(self._spec.replicas) + self._sent_s(cuts))

    def _sent_s(self, cuts: ArgumentLayouts) -> float:
        """How long hosts take for the exchanges, over the slowest link; gradients are exchanged either way."""
        names = [host.name for host in self._spec.hosts]
        links = [self._spec.link(a, b) for a, b in itertools.combinations(names, 2)]
        gbps = min((link.bandwidth_gbps for link in links), default=math.inf)
        latency_s = max((link.latency_ms for link in links), default=0.0) / 1e3 + _EXCHANGE_S
        return cuts.sent_bytes / len(names) / (gbps * BYTES_PER_GBIT) + cuts.exchanges * latency_s

    def _tell(self, arguments: Arguments, cuts: ArgumentLayouts) -> None:
        if self._worker.is_chief:
            what = "a batch has fewer rows than there are replicas, so these have parts of"
            _LOG.info("%s %s; %s", what, cuts_of(arguments, cuts), bytes_of(cuts))
