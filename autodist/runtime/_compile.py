"""From a training step to a compiled one: capture, agree on a strategy, plan, bring into the session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autodist.coordination import Worker, announce, keep_exchanged
from autodist.error_text import said_by
from autodist.errors import AutoDistError, CaptureError, FixedRowsError
from autodist.graph import CapturedStep, NoGradientError, as_array_program, for_shared_examples
from autodist.resource_spec import Device, ResourceSpec
from autodist.runtime._session_steps import SessionSteps
from autodist.runtime._step import CompiledStep
from autodist.runtime._step_plan import SessionPlan, written_by
from autodist.runtime._step_tracing import StepTracing
from autodist.runtime._unshared import NotSharedError, refuse_unshared
from autodist.runtime._wanted_strategy import wanted_for
from autodist.runtime.data import Arguments, Convention, fingerprint_of
from autodist.runtime.state import StateStore
from autodist.strategies import (
    AllReduce,
    Strategy,
    StrategyBuilder,
    StrategyLike,
    compose,
    get,
    installed_communicators,
)

_LOG = logging.getLogger("autodist")


class Compiler:
    """Compiles the training steps of one scope.

    Args:
        worker: This process.
        spec: The cluster.
        strategy: A builder, a strategy, a builder's name or a file.
        convention: What a batch and a loss mean.
        state: The scope's variables.
        scope: What tells this scope from the others of the run.
        first: The strategy of the first training step, where several are tried for it; later ones are asked for.
        may_run_plainly: Whether TensorFlow may run a step that can't be captured for any number of rows.

    Attributes:
        tracing: Traces its steps.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        strategy: StrategyLike,
        convention: Convention,
        state: StateStore,
        scope: str,
        *,
        first: Strategy | None = None,
        may_run_plainly: bool = False,
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._wanted = strategy
        self._first = first
        self._planned: tuple[CapturedStep, Strategy, SessionPlan] | None = None  # what was planned before it was agreed
        self._convention = convention
        self._state = state
        self._scope = scope
        self._steps = SessionSteps(worker, spec, convention, state, scope)
        self.tracing = StepTracing(worker, spec, convention, state, self._steps.warn, may_run_plainly=may_run_plainly)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies in use, one per training step, in the order of compilation."""
        return self._steps.trained_by

    @property
    def can_share(self) -> bool:
        """Whether there is a strategy yet by which workers can share steps that train nothing."""
        return bool(self._steps.strategies)

    def compile_captured(self, captured: CapturedStep, arguments: Arguments) -> CompiledStep:
        """Compile a step that has been traced.

        Args:
            captured: The step.
            arguments: Those of its first call.

        Raises:
            StrategyError: The strategy does not fit it.
        """
        agreement, number = self._steps.agreement, len(self.strategies)
        with self._worker.whereabouts.at("is tracing a new step"):
            with agreement.failing_together(captured):
                batch = self._fingerprint(arguments)
                strategy = agreement.strategy(number, captured, batch, lambda: self._propose(captured))
                plan = self._plan(captured, strategy)
            self._announce(captured, strategy, number)
            return self._commit(plan)

    def plan(self, captured: CapturedStep) -> SessionPlan | None:
        """Plan a step that has been traced, and that all workers know to be the same; nothing is changed by it.

        Returns:
            None if a worker can't: the strategy does not fit the step. The chief says so.
        """
        reason, plan = None, None
        try:
            strategy = self._propose(captured)
            plan = self._plan(captured, strategy)
            self._planned = captured, strategy, plan
        except Exception as error:  # whatever it is, the others wait for what this worker has to say
            reason = error.message if isinstance(error, AutoDistError) else said_by(error)
        reasons = [told for told in self._steps.agreement.told_by_all("planned", reason) if told is not None]
        if reasons and self._worker.is_chief:
            _LOG.warning("a strategy can't be compiled, and is left out; training goes on as before: %s", reasons[0])
        return None if reasons else plan

    def _plan(self, captured: CapturedStep, strategy: Strategy) -> SessionPlan:
        known, self._planned = self._planned, None
        if known is not None and known[0] is captured and known[1] == strategy:
            return known[2]
        started = time.perf_counter()
        number = len(self.strategies)
        try:
            plan = self._steps.plan(captured, strategy, f"step_{self._scope}_{number}")
        except FixedRowsError as error:
            raise (captured.reason or error) from error
        _LOG.info("step %d rewritten in %.2f s", number, time.perf_counter() - started)
        return plan

    def commit(self, plan: SessionPlan) -> CompiledStep:
        """Bring what :meth:`plan` has given into the session; all workers must do so together."""
        self._planned = None
        self._announce(plan.steps[-1].captured, plan.steps[-1].strategy, len(self.strategies))
        return self._commit(plan)

    def _announce(self, captured: CapturedStep, strategy: Strategy, number: int) -> None:
        with_parts = self._steps.placements.with_known_parts(strategy, captured.graph)
        announce(strategy, captured, self._worker, number, with_parts)

    def _commit(self, plan: SessionPlan) -> CompiledStep:
        number = len(self.strategies)
        step = self._steps.commit(plan)
        keep_exchanged(step.graph.exchanged, self._worker, number)
        self._steps.barrier(f"compiled/{self._scope}/{number}")
        return step

    def compile_alike(self, captured: CapturedStep) -> CompiledStep:
        """Compile a step without a batch, which every worker does for itself, alike; nothing is sent.

        Raises:
            NoGradientError: It changes what lives at a server. TensorFlow should run it unchanged, on the program's
                variables; servers get the new values like all that the program assigns.
        """
        if any(self._steps.placements.is_served(name) for name in written_by(captured.graph)):
            raise NoGradientError("the step takes no batch, and changes variables at parameter servers")
        alike = replace(captured, graph=captured.graph.without_gradients())
        strategy = replace(AllReduce().build(captured.graph, self._spec), variables=(), builder="")
        with self._worker.whereabouts.at("is tracing a new step"):
            step = self._bring_in_untrained(alike, strategy, None)
        if self._worker.is_chief:
            _LOG.info("a step takes no batch: every worker does all of it, alike, and nothing is sent")
        return step

    def capture_arrays(
        self, function: Callable[..., Any], arguments: Arguments
    ) -> tuple[CapturedStep, tuple[str, ...]]:
        """Trace a function of arrays for the shapes of its arguments; see :func:`as_array_program`.

        Raises:
            CaptureError: It can't be captured.
        """
        found = self.tracing.whole(function, arguments)
        if any(self._steps.placements.is_served(name) for name in written_by(found.graph)):
            raise CaptureError("it changes variables at parameter servers, or of which workers have parts")
        return as_array_program(found.with_batch_size(arguments.global_rows))

    def capture_examples(
        self, function: Callable[..., Any], arguments: Arguments, rows: int, *, trains: bool
    ) -> CapturedStep:
        """Trace a step, and describe it for batches of just this shape, whose examples replicas share.

        Args:
            function: The step.
            arguments: Those of its first call.
            rows: How many rows its batch has.
            trains: Whether it is to be a training step; else one that trains nothing.

        Raises:
            NoGradientError: It is no training step.
            NotSharedError: It trains something, or its result would differ from that of one device.
            CaptureError: It can't be captured.
        """
        if trains:
            captured = self.tracing.capture(function, arguments, local=False)
        else:
            captured = self._capture_untrained(function, arguments, local=False)
        return for_shared_examples(captured, rows)

    def compile_untrained(self, captured: CapturedStep, arguments: Arguments) -> CompiledStep:
        """Compile a step that trains nothing: it runs where the replicas of the last training step are.

        Args:
            captured: The step.
            arguments: Those of its first call.

        Raises:
            UsageError: The workers have different batches.
        """
        strategy = replace(self._steps.strategies[-1], variables=(), builder="")
        with self._worker.whereabouts.at("evaluates or predicts"):
            return self._bring_in_untrained(captured, strategy, self._fingerprint(arguments))

    def strategy_of_arrays(self, captured: CapturedStep) -> Strategy:
        """The strategy of a function of arrays: it runs where the steps before it do, or on all devices.

        Hosts that serve variables only in those steps have parts of the arrays as well.
        """
        before, wanted = self._steps.strategies, get(self._wanted)
        given = before[-1] if before else wanted
        if isinstance(given, Strategy):
            computing = {Device.parse(device).host for device in given.graph.replicas}
            if computing == {host.name for host in self._spec.hosts}:
                return replace(given, variables=(), builder="")
            carrier = given.graph.communicator
        else:
            carrier = next(iter(given.carriers(installed_communicators())))
        return replace(AllReduce(communicator=carrier).build(captured.graph, self._spec), variables=(), builder="")

    def compile_arrays(self, captured: CapturedStep, strategy: Strategy, arguments: Arguments) -> CompiledStep:
        """Compile a function of arrays that are cut into one part per replica.

        Args:
            captured: The function, whose inputs have tiles.
            strategy: See :meth:`strategy_of_arrays`.
            arguments: Those of its first call.

        Raises:
            UsageError: The workers have different arguments.
        """
        with self._worker.whereabouts.at("is tracing a new step"):
            return self._bring_in_untrained(captured, strategy, self._fingerprint(arguments))

    def _bring_in_untrained(self, captured: CapturedStep, strategy: Strategy, batch: int | None) -> CompiledStep:
        """Bring in a step for which the strategy only says where it runs."""
        number = len(self._steps.strategies) - len(self.strategies)
        with self._steps.agreement.failing_together(captured):
            self._steps.agreement.same(number, captured, batch)
            plan = self._steps.plan(captured, strategy, f"shared_{self._scope}_{number}")
        step = self._steps.commit(plan)
        self._steps.barrier(f"compiled/{self._scope}/shared_{number}")
        return step

    def compile_shared(
        self, function: Callable[..., Any], arguments: Arguments, *, local: bool = False
    ) -> CompiledStep:
        """Compile a step that trains nothing: the replicas of the last training step share its batches.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch; else they are the same on all workers.

        Raises:
            NotSharedError: Its result would differ from that of one device.
            UsageError: The workers have different batches.
        """
        assert self.can_share
        return self.compile_untrained(self._capture_untrained(function, arguments, local=local), arguments)

    def _capture_untrained(self, function: Callable[..., Any], arguments: Arguments, *, local: bool) -> CapturedStep:
        """Trace a step that trains nothing; see :meth:`compile_shared`."""
        try:
            captured = self.tracing.any_rows(function, arguments, local=local)
            self.tracing.check_parts(captured, arguments, local=local)
        except CaptureError as error:
            raise NotSharedError(error.message) from error
        refuse_unshared(captured, self._steps.placements)
        return captured

    def _fingerprint(self, arguments: Arguments) -> int:
        return fingerprint_of(arguments, own=self._convention.brings_own(arguments.is_local or arguments.is_global))

    def leave(self) -> None:
        """End the session, once the program has the variables; all workers must do so together."""
        self._steps.leave()

    def _propose(self, captured: CapturedStep) -> Strategy:
        wanted = wanted_for(
            captured,
            self._spec,
            given=self._wanted,
            tried=self._first,
            earlier=self.strategies,
            is_restarted=self._worker.environment.attempt > 0,
        )
        strategy = self._settled(wanted, captured)
        chooser = get(wanted) if strategy.has_tiles else strategy
        while isinstance(chooser, StrategyBuilder):
            safer = chooser.safer_than(strategy)
            if safer is None:
                return strategy
            try:
                self._planned = captured, strategy, self._plan(captured, strategy)
            except AutoDistError as error:
                less = "groups of replicas" if strategy.groups_of_replicas > 1 else "tiles"
                reason = f"what `auto` chose can't be compiled, so it chooses again without {less}: {error.message}"
                _LOG.info("%s", reason)
                chooser, strategy = safer, self._settled(safer, captured)
            else:
                return strategy
        return strategy

    def _settled(self, wanted: StrategyLike, captured: CapturedStep) -> Strategy:
        return self._steps.placements.settle(compose(wanted, captured.graph, self._spec), captured.graph)
