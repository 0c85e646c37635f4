"""The rewritten steps of a scope in the session: brought in one by one, and again where a later one moves variables."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autodist.coordination import Agreement, Worker
from autodist.errors import StrategyError
from autodist.graph import CapturedStep, StepAnalysis, TrainingGraph
from autodist.kernels import Asked, DistributedGraph, Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.runtime._dump import GraphDump
from autodist.runtime._step import CompiledStep
from autodist.runtime.data import Convention
from autodist.runtime.session import REMOTE_VALUES, SessionHost, Wiring, open_carriers
from autodist.runtime.state import Homes, StateStore
from autodist.strategies import Strategy, needs_servers

__all__ = ["SessionSteps", "written_by"]

_LOG = logging.getLogger("autodist")
_OVERLAP = "AUTODIST_OVERLAP"


@dataclass
class _Compiled:
    """A step with what it takes to rewrite it again."""

    step: CompiledStep
    training: TrainingGraph
    strategy: Strategy
    prepared: Strategy
    """The strategy in terms of ``training``, the prepared graph."""
    prefix: str
    """Under which its graph was first imported."""
    revision: int = 0


class SessionSteps:
    """Rewrites the steps of one scope by their strategies, and brings them into its session.

    Args:
        worker: Who this process is.
        spec: The cluster.
        convention: What a batch and a loss mean.
        state: The scope's variables.
        scope: What tells this scope from the others of the run.

    Attributes:
        agreement: How the workers agree on what they do alike.
        homes: Where the variables live.
    """

    def __init__(
        self, worker: Worker, spec: ResourceSpec, convention: Convention, state: StateStore, scope: str
    ) -> None:
        self.agreement = Agreement(worker, scope)
        self.homes = Homes()
        self._worker = worker
        self._spec = spec
        self._convention = convention
        self._state = state
        self._scope = scope
        self._compiled: list[_Compiled] = []
        self._said: set[str] = set()

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Those of all steps, in the order in which they were brought in."""
        return tuple(compiled.strategy for compiled in self._compiled)

    @property
    def trained_by(self) -> tuple[Strategy, ...]:
        """Those of the steps that train."""
        return tuple(strategy for strategy in self.strategies if strategy.variables)

    def bring_in(self, captured: CapturedStep, strategy: Strategy, prefix: str) -> CompiledStep:
        """Rewrite a step for a strategy, and bring it into the session.

        Args:
            captured: The step.
            strategy: The same on all workers.
            prefix: Its name in the session, unlike any other of the process.

        Raises:
            StrategyError: It does not fit the step, or the steps before it.
        """
        self._worker.environment.permission.check(strategy)
        training, prepared = self._prepare(captured.graph, strategy)
        written = written_by(training)
        if self._worker.world_size > 1:
            self.homes.check(prepared, training, written)
        layout = self._layout(strategy)
        self._connect(layout)
        graph = self._rewrite(training, prepared, layout, prefix)
        moved = self._moved(prepared, training)
        self.homes.add_parts(strategy, captured.graph)
        cut = self._cut_anew(training)
        with self._worker.connecting():  # a session connects when something is first run in it
            host = self._host(strategy, layout)
            self._add(host, strategy, prefix, graph)
            self.homes.add(prepared, training)
            self._state.move(moved, graph)
            served = self.homes.known((v.name for v in training.variables), layout)
            self._state.add(graph, captured.handles, written, served)
        step = CompiledStep(captured, graph, host, prefix, written)
        earlier = list(self._compiled)
        self._compiled.append(_Compiled(step, training, strategy, prepared, prefix))
        self._bring_in_again(earlier, {*moved, *cut})
        return step

    def _prepare(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        return prepare(graph, self.homes.with_known_parts(strategy, graph))

    def _rewrite(self, training: TrainingGraph, strategy: Strategy, layout: Layout, prefix: str) -> DistributedGraph:
        kernels = kernels_for(
            training,
            strategy,
            step=prefix,
            container=self._container,
            gradient_reduction=self._convention.gradient_reduction,
            overlap=os.environ.get(_OVERLAP) != "0",
            homes=self.homes.known((v.name for v in training.variables), layout),
        )
        dump = self._dump(prefix, training, layout)
        graph, _ = rewrite(training, layout, kernels, dump)
        for warning in graph.warnings:
            self.warn(warning)
        for note in graph.notes:
            self._say(note, logging.INFO)
        return graph

    def warn(self, warning: str) -> None:
        """Have the chief say something once that all workers find."""
        self._say(warning, logging.WARNING)

    def _say(self, words: str, level: int) -> None:
        if self._worker.is_chief and words not in self._said:
            _LOG.log(level, words)
        self._said.add(words)

    def _dump(self, prefix: str, training: TrainingGraph, layout: Layout) -> GraphDump | None:
        """Where the graphs of a step go, if the user wants to see them; begins with the one before all kernels."""
        directory = self._worker.environment.dump_graphs
        if directory is None:
            return None
        dump = GraphDump.of_step(directory, self._worker.rank, prefix)
        dump("prepared", DistributedGraph.of(training, layout))
        return dump

    # Variables that get another home -------------------------------------------------------------------------------

    def _moved(self, strategy: Strategy, training: TrainingGraph) -> list[str]:
        """Variables that earlier steps have kept on every worker and this one gives to a server."""
        host = self._state.host
        known = host.variables if host is not None else frozenset[str]()
        moved = [name for name in self.homes.newly_served(strategy, training) if name in known]
        for name in moved:
            self._check_unwritten(name, "trains it at a server")
        return moved

    def _check_unwritten(self, name: str, now: str) -> None:
        if self._worker.world_size > 1 and self._state.is_written_by_steps(name):
            raise StrategyError(
                f"an earlier step changes its own copy of `{name}` on every worker, this one {now}",
                hint="call first the step that trains it, or use AllReduce",
            )

    def _cut_anew(self, training: TrainingGraph) -> list[str]:
        """Cut variables that earlier steps only read, and that this one trains in parts; returns the parts."""
        names = self._state.in_other_parts(training.variables)
        for name in names:
            self._check_unwritten(name, "trains it in parts")
        for compiled in self._compiled if names else ():
            compiled.training, compiled.prepared = self._prepare(compiled.step.captured.graph, compiled.strategy)
        self._state.forget(names)
        return [v.name for v in training.variables if v.piece is not None and v.piece.whole in names]

    def _bring_in_again(self, earlier: Iterable[_Compiled], moved: Iterable[str]) -> None:
        """Have earlier steps read variables where they are now, and in the parts that they are in now."""
        names = set(moved)
        for compiled in earlier:
            if not names.isdisjoint(v.name for v in compiled.training.variables):
                self._replace(compiled)

    def _replace(self, compiled: _Compiled) -> None:
        """Rewrite an earlier step again."""
        compiled.revision += 1
        prefix = f"{compiled.prefix}_{compiled.revision}"
        layout = self._layout(compiled.strategy)
        graph = self._rewrite(compiled.training, compiled.prepared, layout, prefix)
        assert self._state.host is not None
        self._add(self._state.host, compiled.strategy, prefix, graph)
        compiled.step.replace(graph, prefix, self._state.host)

    # The session -----------------------------------------------------------------------------------------------------

    @property
    def _container(self) -> str:
        return f"scope_{self._scope}"

    def _layout(self, strategy: Strategy) -> Layout:
        host = self._state.host
        server = self._worker.world_size > 1 and needs_servers(strategy)
        if host is not None and (host.wiring.server or not strategy.variables):
            server = host.wiring.server  # without variables of its own a step reads them wherever they are
        return Layout.of(strategy, self._spec, self._worker.rank, server=server)

    def _add(self, host: SessionHost, strategy: Strategy, prefix: str, graph: DistributedGraph) -> None:
        """Bring a rewritten step into the session, and answer what other workers ask while they take theirs."""
        host.add_step(prefix, graph)
        may_ask = strategy.has_servers or self.homes.has_served  # the same on all workers
        if not may_ask or graph.layout.server:
            return
        asked = self.agreement.told_by_all("asks", [asked.to_json() for asked in graph.asks])
        for asker, told in enumerate(asked):
            for found in map(Asked.from_json, told):
                if found.rank == self._worker.rank:
                    host.answer(prefix, asker, found)

    def _connect(self, layout: Layout) -> None:
        """Bring earlier steps, which have done without TensorFlow's servers, into a session that has them."""
        old = self._state.host
        if old is None or old.wiring.server or not layout.server:
            return
        self._state.pull_all()
        self.barrier(self.agreement.next("connected anew"))  # before, others may still ask this session for values
        self._state.forget(self._state.names)
        old.close()
        self._state.host = SessionHost(self._worker, replace(old.wiring, server=True), container=self._container)
        for compiled in self._compiled:
            self._replace(compiled)
            served = self.homes.known((v.name for v in compiled.training.variables), compiled.step.graph.layout)
            self._state.add(compiled.step.graph, compiled.step.captured.handles, written_by(compiled.training), served)

    def _host(self, strategy: Strategy, layout: Layout) -> SessionHost:
        open_carriers(strategy.carriers, self._worker, self._spec)
        if self._worker.world_size > 1 and strategy.has_servers and not layout.server:
            REMOTE_VALUES.open(self._worker)
        if self._state.host is None:
            cpus = max((d.index + 1 for d in layout.local_replicas if d.kind == "CPU"), default=1)
            wiring = Wiring(layout.server, max(cpus, self._spec.hosts[self._worker.rank].cpus))
            self._state.host = SessionHost(self._worker, wiring, container=self._container)
        return self._state.host

    def leave(self) -> None:
        """End the session, the program has the variables; all workers must do so together."""
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


def written_by(graph: TrainingGraph) -> list[str]:
    """Names of the variables that a step changes."""
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], ())
    handles = {handle for write in analysis.writes.values() for handle in write.handles}
    return [v.name for v in graph.variables if v.handle in handles]
