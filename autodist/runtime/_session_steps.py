"""The planned steps of a scope in the session: brought in one by one, and again where a later one moves variables."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace

from autodist.coordination import Agreement, Worker
from autodist.graph import CapturedStep
from autodist.kernels import QuestionSet
from autodist.resource_spec import ResourceSpec
from autodist.runtime._dump import GraphDump
from autodist.runtime._step import CompiledStep
from autodist.runtime._step_plan import Observer, PlannedStep, SessionPlan, Setting, plan_step
from autodist.runtime.data import FILED_VALUES, Convention
from autodist.runtime.session import REMOTE_VALUES, SessionConnections, SessionHost, open_carriers
from autodist.runtime.state import Placements, StateStore
from autodist.strategies import Strategy

_LOG = logging.getLogger("autodist")
_OVERLAP = "AUTODIST_OVERLAP"


class SessionSteps:
    """Plans the steps of one scope by their strategies, and brings them into its session.

    Args:
        worker: This process.
        spec: The cluster.
        convention: What a batch and a loss mean.
        state: The scope's variables.
        scope: What tells this scope from the others of the run.

    Attributes:
        agreement: How the workers agree on what they do alike.
    """

    def __init__(
        self, worker: Worker, spec: ResourceSpec, convention: Convention, state: StateStore, scope: str
    ) -> None:
        self.agreement = Agreement(worker, scope)
        self._worker = worker
        self._spec = spec
        self._state = state
        self._scope = scope
        self._setting = Setting(
            spec,
            worker.rank,
            f"scope_{scope}",
            convention.gradient_reduction,
            overlap=os.environ.get(_OVERLAP) != "0",
            updates_in_turn=FILED_VALUES.is_open or spec.hosts[worker.rank].memory_gb is not None,
            observe=self._dump,
        )
        self._plan = SessionPlan()
        self._compiled: list[CompiledStep] = []
        self._said: set[str] = set()

    @property
    def placements(self) -> Placements:
        """Where the variables live."""
        return self._plan.placements

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Those of all steps, in the order in which they were brought in."""
        return tuple(step.strategy for step in self._plan.steps)

    @property
    def trained_by(self) -> tuple[Strategy, ...]:
        """Those of the steps that train."""
        return tuple(strategy for strategy in self.strategies if strategy.variables)

    def plan(self, captured: CapturedStep, strategy: Strategy, prefix: str) -> SessionPlan:
        """The session's contents with one more step; the session stays as it is.

        Args:
            captured: The step.
            strategy: The same on all workers.
            prefix: Its name in the session, unlike any other of the process.

        Raises:
            StrategyError: It does not fit the step, or the steps before it.
        """
        self._worker.environment.permission.check(strategy)
        return plan_step(self._plan, captured, strategy, prefix, self._setting)

    def commit(self, plan: SessionPlan) -> CompiledStep:
        """Bring into the session what was planned last; all workers must do so together."""
        before, self._plan = self._plan, plan
        new = plan.steps[-1]
        self._tell(plan.steps)
        if plan.connects:
            self._connect(plan)
        else:
            self._state.forget(plan.recut)
        with self._worker.connecting():  # a session connects when something is first run in it
            host = self._host(new)
            self._add(host, new)
            if not plan.connects:
                self._state.move(plan.moved, new.graph)
            self._add_variables(new)
        step = CompiledStep(new.captured, new.graph, host, new.name, new.written)
        if not plan.connects:
            for compiled, old, again in zip(self._compiled, before.steps, plan.steps, strict=False):
                if again is not old:
                    self._replace(compiled, again, host)
        self._compiled.append(step)
        return step

    def bring_in(self, captured: CapturedStep, strategy: Strategy, prefix: str) -> CompiledStep:
        """Plan a step, and bring it into the session; see :meth:`plan`."""
        return self.commit(self.plan(captured, strategy, prefix))

    def _tell(self, steps: Iterable[PlannedStep]) -> None:
        for step in steps:
            for warning in step.graph.warnings:
                self.warn(warning)
            for note in step.graph.notes:
                self._say(note, logging.INFO)

    def warn(self, warning: str) -> None:
        """Have the chief say something once that all workers find."""
        self._say(warning, logging.WARNING)

    def _say(self, words: str, level: int) -> None:
        if self._worker.is_chief and words not in self._said:
            _LOG.log(level, words)
        self._said.add(words)

    def _dump(self, name: str) -> Observer | None:
        """Where the graphs of a step go, if the user wants to see them."""
        directory = self._worker.environment.dump_graphs
        return None if directory is None else GraphDump.of_step(directory, self._worker.rank, name)

    # The session -----------------------------------------------------------------------------------------------------

    def _replace(self, compiled: CompiledStep, step: PlannedStep, host: SessionHost) -> None:
        """Go on with an earlier step as it is planned now."""
        self._add(host, step)
        compiled.replace(step.graph, step.name, host)

    def _add(self, host: SessionHost, step: PlannedStep) -> None:
        """Bring a rewritten step into the session, and answer what other workers ask while they take theirs."""
        host.add_step(step.name, step.graph)
        may_ask = step.strategy.has_servers or self.placements.has_served  # the same on all workers
        if not may_ask:
            return
        asked = self.agreement.told_by_all("asks", [asked.to_json() for asked in step.graph.asks])
        for asker, told in enumerate(asked):
            for found in map(QuestionSet.from_json, told):
                if found.rank == self._worker.rank:
                    host.answer(step.name, asker, found)

    def _add_variables(self, step: PlannedStep) -> None:
        served = self.placements.known((v.name for v in step.training.variables), step.graph.layout)
        self._state.add(step.graph, step.captured.handles, step.written, served)

    def _connect(self, plan: SessionPlan) -> None:
        """Bring earlier steps, which have done without TensorFlow's servers, into a session that has them."""
        old = self._state.host
        assert old is not None
        self._state.pull_all()
        self.barrier(self.agreement.next("connected again"))  # before, others may still ask this session for values
        self._state.forget(self._state.names)
        old.close()
        host = SessionHost(self._worker, replace(old.wiring, server=True), container=self._setting.container)
        self._state.host = host
        for compiled, step in zip(self._compiled, plan.steps, strict=False):
            self._replace(compiled, step, host)
            self._add_variables(step)

    def _host(self, step: PlannedStep) -> SessionHost:
        layout, strategy = step.graph.layout, step.strategy
        open_carriers(strategy.carriers, self._worker, self._spec)
        if self._worker.world_size > 1 and strategy.has_servers:
            REMOTE_VALUES.open(self._worker)
        if self._state.host is None:
            cpus = max((d.index + 1 for d in layout.local_replicas if d.kind == "CPU"), default=1)
            wiring = SessionConnections(layout.server, max(cpus, self._spec.hosts[self._worker.rank].cpus))
            self._state.host = SessionHost(self._worker, wiring, container=self._setting.container)
        return self._state.host

    def leave(self) -> None:
        """End the session, once the program has the variables; all workers must do so together."""
        host = self._state.host
        assert host is not None
        self._state.pull_all()
        self.barrier(f"left/{self._scope}")  # before, others may still read what this worker serves
        self._state.forget(self._state.names)
        host.dispose()
        self._state.host = None

    def barrier(self, name: str) -> None:
        """Wait for all workers, if there are others."""
        if self._worker.coordinator is not None and self._worker.world_size > 1:
            self._worker.coordinator.barrier(name, self._worker.environment.start_timeout_s)
