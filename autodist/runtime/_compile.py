"""From a training step to a compiled one: capture, agree on a strategy, rewrite, bring into the session."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from autodist.errors import CaptureError, StrategyError
from autodist.graph import (
    CapturedStep,
    NoGradientError,
    StepAnalysis,
    TrainingGraph,
    VariableNames,
    capture,
)
from autodist.kernels import (
    DistributedGraph,
    KernelTiming,
    Layout,
    kernels_for,
    prepare,
    rewrite,
    why_not_exact,
)
from autodist.resource_spec import ResourceSpec
from autodist.runtime._agreement import Agreement, announce
from autodist.runtime._arguments import Arguments
from autodist.runtime._connections import PROCESS_CONNECTIONS
from autodist.runtime._convention import Convention
from autodist.runtime._dump import GraphDump
from autodist.runtime._fingerprints import fingerprint_of
from autodist.runtime._homes import Homes, Settle
from autodist.runtime._horovod_network import start_horovod
from autodist.runtime._host import SessionHost, Wiring
from autodist.runtime._part_checks import PartChecks
from autodist.runtime._remote_values import REMOTE_VALUES
from autodist.runtime._state import StateStore
from autodist.runtime._step import CompiledStep
from autodist.runtime._worker import Worker
from autodist.strategies import AllReduce, Strategy, StrategyBuilder, compose

__all__ = ["Compiler", "NotSharedError"]

_LOG = logging.getLogger("autodist")
_OVERLAP = "AUTODIST_OVERLAP"


class NotSharedError(CaptureError):
    """The workers can't share a step that trains nothing: each of them runs it on the whole batch."""


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


class Compiler:
    """Compiles the training steps of one scope.

    Args:
        worker: Who this process is.
        spec: The cluster.
        strategy: A builder, a strategy, a builder's name or a file.
        convention: What a batch and a loss mean.
        state: The scope's variables.
        scope: What tells this scope from the others of the run.

    Attributes:
        timings: How long the kernels took for the last step.
        names: The variables' names.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        strategy: str | os.PathLike[str] | StrategyBuilder | Strategy,
        convention: Convention,
        state: StateStore,
        scope: str,
    ) -> None:
        self.timings: tuple[KernelTiming, ...] = ()
        self.names = VariableNames()
        self._worker = worker
        self._spec = spec
        self._wanted = strategy
        self._convention = convention
        self._state = state
        self._scope = scope
        self._agreement = Agreement(worker, scope)
        self._homes = Homes()
        self._parts = PartChecks(len(spec.replicas))
        self._compiled: list[_Compiled] = []
        self._warned: set[str] = set()

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies in use, one per training step, in the order of compilation."""
        return tuple(compiled.strategy for compiled in self._compiled if compiled.strategy.variables)

    @property
    def can_share(self) -> bool:
        """Whether there is a strategy so far by which workers can share what trains nothing."""
        return bool(self._compiled)

    def compile(self, function: Callable[..., Any], arguments: Arguments, *, local: bool) -> CompiledStep:
        """Compile a step for arguments of this kind.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch.

        Raises:
            NoGradientError: It is no training step.
            CaptureError: It can't be captured.
            StrategyError: The strategy does not fit it.
        """
        return self.compile_captured(self.capture(function, arguments, local=local), arguments, local=local)

    def compile_captured(self, captured: CapturedStep, arguments: Arguments, *, local: bool) -> CompiledStep:
        """Compile a step that has been traced; see :meth:`compile`."""
        number = len(self.strategies)
        with self._worker.whereabouts.at("is tracing a new step"):
            strategy = self._agreement.strategy(
                number, captured, self._fingerprint(arguments), lambda: self._propose(captured)
            )
            announce(strategy, captured, self._worker, number)
            started = time.perf_counter()
            step = self.bring_in(captured, strategy, f"step_{self._scope}_{number}")
            _LOG.info("step %d rewritten in %.2f s", number, time.perf_counter() - started)
            self._barrier(f"compiled/{self._scope}/{number}")
        return step

    def compile_alike(self, captured: CapturedStep) -> CompiledStep:
        """Compile a step without a batch, which every worker does for itself, alike; nothing is sent.

        Raises:
            StrategyError: It changes what lives at a server.
        """
        alike = replace(captured, graph=captured.graph.without_gradients())
        strategy = replace(AllReduce().build(captured.graph, self._spec), variables=(), builder="")
        with self._worker.whereabouts.at("is tracing a new step"):
            step = self._bring_in_untrained(alike, strategy, None)
        if self._worker.is_chief:
            _LOG.info("a step takes no batch: every worker does all of it, alike, and nothing is sent")
        return step

    def _bring_in_untrained(self, captured: CapturedStep, strategy: Strategy, batch: int | None) -> CompiledStep:
        """Bring in a step of which the strategy says nothing but where it runs."""
        number = len(self._compiled) - len(self.strategies)
        self._agreement.same(number, captured, batch)
        step = self.bring_in(captured, strategy, f"shared_{self._scope}_{number}")
        self._barrier(f"compiled/{self._scope}/shared_{number}")
        return step

    def capture(self, function: Callable[..., Any], arguments: Arguments, *, local: bool) -> CapturedStep:
        """Trace a step for arguments of this kind.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch.

        Raises:
            NoGradientError: It is no training step.
            CaptureError: It can't be captured.
        """
        captured = self._capture(function, arguments, local=local)
        if not captured.graph.trainable:
            raise NoGradientError(
                f"`{getattr(function, '__name__', function)}` takes no gradient with respect to a variable",
                hint="a training step differentiates its loss by `tf.GradientTape.gradient` and applies the result",
            )
        self.check_parts(captured, arguments, local=local)
        if captured.asking and len(self._spec.replicas) > 1:
            self._warn(_of_asking(captured))
        return captured

    def check_parts(self, captured: CapturedStep, arguments: Arguments, *, local: bool) -> None:
        """Refuse what replicas can't do with their parts of a batch; see :meth:`capture` for the arguments.

        Raises:
            CaptureError: There is such a thing.
        """
        self._parts.check(captured, arguments, self._batch_size(arguments, local))

    def compile_shared(
        self, function: Callable[..., Any], arguments: Arguments, *, local: bool = False
    ) -> CompiledStep:
        """Compile a step that trains nothing: the replicas of the last training step share its batches.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch; else they are the same on all workers.

        Raises:
            NotSharedError: What it gives would not be what it gives on one device.
            UsageError: The workers have different batches.
        """
        assert self.can_share
        try:
            captured = self._capture(function, arguments, local=local)
            self.check_parts(captured, arguments, local=local)
        except CaptureError as error:
            raise NotSharedError(error.message) from error
        self._check_shared(captured)
        strategy = replace(self._compiled[-1].strategy, variables=(), builder="")
        with self._worker.whereabouts.at("evaluates or predicts"):
            return self._bring_in_untrained(captured, strategy, self._fingerprint(arguments))

    def _fingerprint(self, arguments: Arguments) -> int:
        return fingerprint_of(arguments, own=self._convention.brings_own(arguments.is_local))

    def _capture(self, function: Callable[..., Any], arguments: Arguments, *, local: bool) -> CapturedStep:
        self._state.pull_all()  # tracing may build layers from current values
        rows = self._batch_size(arguments, local)
        captured = capture(
            arguments.bind(function),
            arguments.specs(),
            self.names,
            split=arguments.split,
            synchronized_batch_norm=self._convention.batch_norm == "synchronized",
            rows=None if arguments.has_open_rows else rows,
        )
        return replace(captured, graph=captured.graph.with_batch_size(rows))

    def _check_shared(self, captured: CapturedStep) -> None:
        import tensorflow as tf

        leaves = tf.nest.flatten(captured.structure)
        reason = None
        if captured.graph.trainable:
            reason = "it takes a gradient"
        elif captured.asking:
            reason = f"it asks in Python how many rows there are, at {captured.asking[0]}"
        elif any(isinstance(leaf, tf.__internal__.CompositeTensor) for leaf in leaves):
            reason = "it returns ragged or sparse tensors"
        elif any(self._homes.is_served(name) for name in _written(captured.graph)):
            reason = "it changes variables at parameter servers"
        reason = reason or why_not_exact(captured.graph)
        if reason is not None:
            raise NotSharedError(reason)

    def _batch_size(self, arguments: Arguments, local: bool) -> int | None:
        """Examples in the global batch; of a local one, supposed that all workers have as many."""
        batch = arguments.batch
        return len(batch[0]) * (self._worker.world_size if local else 1) if batch else None

    def leave(self) -> None:
        """End the session, the program has the variables; all workers must do so together."""
        host = self._state.host
        assert host is not None
        self._state.pull_all()
        self._barrier(f"left/{self._scope}")  # before, others may still read what this worker serves
        self._state.forget(self._state.names)
        host.dispose()
        self._state.host = None

    def _propose(self, captured: CapturedStep) -> Strategy:
        strategy = compose(self._wanted, captured.graph, self._spec)
        return self._homes.settle(strategy, captured.graph)

    def bring_in(self, captured: CapturedStep, strategy: Strategy, prefix: str) -> CompiledStep:
        """Rewrite a step for a strategy, and bring it into the session.

        Args:
            captured: The step.
            strategy: The same on all workers.
            prefix: Its name in the session, unlike any other of the process.

        Raises:
            StrategyError: It does not fit the step, or the steps before it.
        """
        training, prepared = self._prepare(captured.graph, strategy)
        written = _written(training)
        if self._worker.world_size > 1:
            self._homes.check(prepared, training, written)
        layout, graph = self._connected(training, prepared, self._layout(strategy), prefix)
        moved = self._moved(prepared, training)
        self._homes.add_parts(strategy, captured.graph)
        cut = self._cut_anew(training)
        host = self._host(strategy, layout)
        host.add_step(prefix, graph)
        self._homes.add(prepared, training)
        self._state.move(moved, graph)
        served = self._homes.known((v.name for v in training.variables), layout)
        self._state.add(graph, captured.handles, written, served)
        step = CompiledStep(captured, graph, host, prefix, written)
        earlier = list(self._compiled)
        self._compiled.append(_Compiled(step, training, strategy, prepared, prefix))
        self._bring_in_again(earlier, {*moved, *cut})
        return step

    def _prepare(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        return prepare(graph, self._homes.with_known_parts(strategy, graph))

    def _rewrite(self, training: TrainingGraph, strategy: Strategy, layout: Layout, prefix: str) -> DistributedGraph:
        kernels = kernels_for(
            training,
            strategy,
            step=prefix,
            container=self._container,
            gradient_reduction=self._convention.gradient_reduction,
            overlap=os.environ.get(_OVERLAP) != "0",
        )
        homes = self._homes.known((v.name for v in training.variables), layout)
        dump = self._dump(prefix, training, layout)
        graph, self.timings = rewrite(training, layout, (Settle(homes), *kernels), dump)
        for warning in graph.warnings:
            self._warn(warning)
        return graph

    def _warn(self, warning: str) -> None:
        """All workers find the same, so the chief says it, once."""
        if self._worker.is_chief and warning not in self._warned:
            _LOG.warning(warning)
        self._warned.add(warning)

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
        moved = [name for name in self._homes.newly_served(strategy, training) if name in known]
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
        if self._need_servers(graph, compiled.strategy):
            self._connect(replace(layout, server=True))  # replaces all of them
            return
        assert self._state.host is not None
        self._state.host.add_step(prefix, graph)
        compiled.step.replace(graph, prefix, self._state.host)

    # The session -----------------------------------------------------------------------------------------------------

    @property
    def _container(self) -> str:
        return f"scope_{self._scope}"

    def _layout(self, strategy: Strategy) -> Layout:
        host = self._state.host
        server = self._worker.world_size > 1 and _needs_server(strategy)
        if host is not None and (host.wiring.server or not strategy.variables):
            server = host.wiring.server  # without variables of its own a step reads them wherever they are
        return Layout.of(strategy, self._spec, self._worker.rank, server=server)

    def _connected(
        self, training: TrainingGraph, strategy: Strategy, layout: Layout, prefix: str
    ) -> tuple[Layout, DistributedGraph]:
        """A step as rewritten, and the layout for which it is: one with servers if any worker can't do without."""
        self._connect(layout)
        graph = self._rewrite(training, strategy, layout, prefix)
        if not self._need_servers(graph, strategy):
            return layout, graph
        with_servers = replace(layout, server=True)
        self._connect(with_servers)
        return with_servers, self._rewrite(training, strategy, with_servers, prefix)

    def _need_servers(self, graph: DistributedGraph, strategy: Strategy) -> bool:
        """Whether sessions that don't see each other's devices can't run a step, on this or on another worker."""
        may_reach = strategy.has_servers or self._homes.has_served  # the same on all workers
        return may_reach and not graph.layout.server and self._agreement.any(graph.reaches_others)

    def _connect(self, layout: Layout) -> None:
        """Bring earlier steps, which have done without TensorFlow's servers, into a session that has them."""
        old = self._state.host
        if old is None or old.wiring.server or not layout.server:
            return
        self._state.forget(self._state.names)
        self._barrier(self._agreement.next("connected anew"))  # before, others may still ask this session for values
        old.close()
        self._state.host = SessionHost(self._worker, replace(old.wiring, server=True), container=self._container)
        for compiled in self._compiled:
            self._replace(compiled)
            served = self._homes.known((v.name for v in compiled.training.variables), compiled.step.graph.layout)
            self._state.add(compiled.step.graph, compiled.step.captured.handles, _written(compiled.training), served)

    def _host(self, strategy: Strategy, layout: Layout) -> SessionHost:
        if self._worker.world_size > 1 and "horovod" in strategy.carriers:
            start_horovod(self._worker)
        if self._worker.world_size > 1 and "tcp" in strategy.carriers:
            PROCESS_CONNECTIONS.open(self._worker, self._spec)
            if strategy.has_servers and not layout.server:
                REMOTE_VALUES.open(self._worker)
        if self._state.host is None:
            cpus = max((d.index + 1 for d in layout.local_replicas if d.kind == "CPU"), default=1)
            wiring = Wiring(layout.server, max(cpus, self._spec.hosts[self._worker.rank].cpus))
            self._state.host = SessionHost(self._worker, wiring, container=self._container)
        return self._state.host

    def _barrier(self, name: str) -> None:
        if self._worker.coordinator is not None and self._worker.world_size > 1:
            self._worker.coordinator.barrier(name, self._worker.environment.start_timeout_s)


def _of_asking(captured: CapturedStep) -> str:
    """What to tell of a program that wants a number where there is none."""
    return (
        f"the step asks in Python for the number of rows of its batch, at {', '.join(captured.asking)}. It gets None, "
        f"where one device has {captured.graph.batch_size}, because replicas get parts of each batch, and is another "
        "step by that: write `tf.shape(x)[0]` for the number of rows, and -1 in its place in `tf.reshape`"
    )


def _written(graph: TrainingGraph) -> list[str]:
    """Names of the variables that a step changes."""
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], ())
    handles = {handle for write in analysis.writes.values() for handle in write.handles}
    return [v.name for v in graph.variables if v.handle in handles]


def _needs_server(strategy: Strategy) -> bool:
    """Whether workers reach each other through TensorFlow whatever the step is, since queues or collectives do so."""
    of_variables = strategy.has_servers and (not strategy.graph.has_streams or strategy.is_relaxed)
    return of_variables or bool({"collective", "queue"} & set(strategy.carriers))
