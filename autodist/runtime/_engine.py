"""The engine of a scope: runs its training steps, compiling those that are new."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from autodist.errors import CaptureError, UsageError, WorkerFailed
from autodist.graph import CapturedStep
from autodist.resource_spec import ResourceSpec
from autodist.runtime._arguments import Arguments, Splits, flatten, flatten_batch
from autodist.runtime._batch import LocalArray
from autodist.runtime._batch_check import BatchCheck
from autodist.runtime._compile import Compiler, NotSharedError
from autodist.runtime._convention import Convention
from autodist.runtime._decisions import Decisions
from autodist.runtime._ends import Ends
from autodist.runtime._online import FirstSteps
from autodist.runtime._peers import peer_failures
from autodist.runtime._plain import PlainSteps
from autodist.runtime._recorder import Recorder
from autodist.runtime._said import said_by
from autodist.runtime._settling import Settling
from autodist.runtime._shard import Passes
from autodist.runtime._state import StateStore
from autodist.runtime._statistics import averages
from autodist.runtime._step import CompiledStep
from autodist.runtime._trials import Trials
from autodist.runtime._untrained import WholeBatches
from autodist.runtime._watchdog import Watchdog
from autodist.runtime._worker import Worker
from autodist.strategies import Strategy, StrategyBuilder

__all__ = ["Engine"]

_LOG = logging.getLogger("autodist")
_numbers = itertools.count()


class Engine:
    """Runs the training steps of one scope.

    Args:
        worker: Who this process is.
        spec: The cluster.
        strategy: A builder, a strategy, a builder's name or a file.
        convention: What a batch and a loss mean.
        recorder: Writes down what the first steps do, if anyone wants to compare.

    Attributes:
        worker: Who this process is.
        state: The scope's variables.
        decisions: How the workers agree on what callbacks decide.
        has_local_batch: Whether the program is in a loop over an ``ad.shard`` dataset and has not yet given a step the
            batch that it got there.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        strategy: str | os.PathLike[str] | StrategyBuilder | Strategy,
        convention: Convention,
        recorder: Recorder | None = None,
    ) -> None:
        scope = str(next(_numbers))
        self.worker = worker
        self.state = StateStore(worker, scope)
        self.has_local_batch = False
        self._spec = spec
        self._convention = convention
        self._recorder = recorder
        self._trials = Trials.ordered(worker, spec, convention)
        self._first_steps = FirstSteps(worker, spec, strategy, scope)
        self._steps: dict[Any, CompiledStep] = {}
        self._splits = Splits(len(spec.replicas))
        self._not_shared: dict[Any, NotSharedError] = {}
        self._is_settled = True
        self._scope = scope
        self._compilers = itertools.count()
        self._compiler = self._compiler_of(strategy)
        self._datasets = 0
        self._standstills = 0
        self._settling = Settling(worker, scope)
        self.decisions = Decisions(worker, self.state, scope)
        self._batches = BatchCheck(worker, convention, scope)
        self._whole_batches = WholeBatches(worker, scope)
        self._failed = False
        self._has_warned = False
        is_alone = worker.world_size == 1 and self.num_replicas == 1
        self._plain = PlainSteps(worker, is_allowed=is_alone and self._trials is None and recorder is None)
        self._watchdog = Watchdog(worker)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies in use, one per traced step, in the order of tracing."""
        return self._compiler.strategies

    @property
    def num_replicas(self) -> int:
        """Replicas in all; 1 means that nothing has to be synchronized."""
        return len(self._spec.replicas)

    def passes(self) -> Passes:
        """What the loops over one sharded dataset need of the engine."""
        self._datasets += 1
        coordinator, number = self.worker.coordinator, itertools.count()
        prefix = f"ends/{self._scope}/{self._datasets}"

        def handed_out(pending: bool) -> None:
            if pending and self.has_local_batch:
                self._warn_of_lost_batch()
            self.has_local_batch = pending

        def begin() -> Ends:
            assert coordinator is not None
            return Ends(coordinator, f"{prefix}/{next(number)}", self.worker.rank, self.worker.world_size)

        is_alone = coordinator is None or self.worker.world_size == 1
        return Passes(handed_out, None if is_alone else begin, self._check_ends_can_be_told)

    def _warn_of_lost_batch(self) -> None:
        if self.worker.is_chief and self.worker.world_size > 1 and not self._has_warned:
            _LOG.warning(
                "a loop over `ad.shard(dataset)` goes on to the next batch, and has given the last one to no step. "
                "What is computed from it outside of steps, metrics for one, is computed from each worker's part "
                "alone: do that in an `@ad.function`, or loop over the dataset itself"
            )
        self._has_warned = True

    def gather(self, place: str = "takes up training again") -> None:
        """Wait for the other workers: after batches of a dataset were passed over, no steps have kept them together.

        Args:
            place: What this worker is about to do, in words that follow its name.
        """
        self.decisions.meet(place)

    def _check_ends_can_be_told(self) -> None:
        if any(step.graph.relaxed for step in self._steps.values()):
            raise UsageError(
                "data sharded by file or by element needs steps that all workers take together, but the strategy has "
                "parameter servers with `sync=False` or a `staleness`",
                hint="`ad.shard(dataset, by='batch')`, or a synchronous strategy",
            )

    # Running -----------------------------------------------------------------------------------------------------

    @property
    def runs_plainly(self) -> bool:
        """Whether TensorFlow is running a step of one device that can't be captured."""
        return self._plain.is_running

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        plain: Callable[[], Any] | None = None,
        *,
        has_open_rows: bool = False,
    ) -> Any:
        """Run a training step on a batch; traces it when it is new.

        Args:
            function: The step.
            args: Its arguments.
            kwargs: Its keywords.
            plain: Calls it as TensorFlow does without a scope, which is done on one device if it can't be captured.
            has_open_rows: Whether TensorFlow would trace it for any number of rows then.

        Raises:
            CaptureError: The step can't be captured.
            StrategyError: The strategy does not fit it.
            UsageError: The arguments are no batch.
            WorkerFailed: Another worker is gone.
        """

        def flattened() -> Arguments:
            return flatten(args, kwargs, has_open_rows=has_open_rows)

        return self._plain.call(function, flattened, plain, lambda found: self._train(function, found))

    def run_batch(
        self,
        function: Callable[..., Any],
        batch: Any,
        plain: Callable[[], Any] | None = None,
        *,
        has_open_rows: bool = False,
    ) -> Any:
        """Run a training step of Keras, which takes one structure of arrays; see :meth:`run`."""

        def flattened() -> Arguments:
            return flatten_batch(batch, has_open_rows=has_open_rows)

        return self._plain.call(function, flattened, plain, lambda found: self._train(function, found))

    def run_untrained(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a step that trains nothing on a batch of which every worker has its part; see :class:`WholeBatches`."""
        self.has_local_batch = False
        self.settle()
        return self._whole_batches.run(function, flatten(args, kwargs))

    @property
    def can_share(self) -> bool:
        """Whether the replicas can share the batches of steps that train nothing: from the first training step on."""
        is_wanted = self._convention.evaluation == "shared" and self._convention.batch == "global"
        return is_wanted and self.num_replicas > 1 and self._compiler.can_share

    def run_shared(self, function: Callable[..., Any], batch: Any, *, has_open_rows: bool = False) -> Any:
        """Run a step that trains nothing on a batch that every worker has, each replica on its part.

        Args:
            function: The step; takes one structure of arrays.
            batch: Its argument.
            has_open_rows: As for :meth:`run`.

        Returns:
            What it gives for the whole batch, on every worker.

        Raises:
            NotSharedError: That would not be what it gives on one device; every worker is to run all of it.
            UsageError: The workers have different batches.
            WorkerFailed: Another worker is gone.
        """
        try:
            arguments = self._splits.of(("shared", function), flatten_batch(batch, has_open_rows=has_open_rows))
        except UsageError as error:
            raise NotSharedError(error.message) from error
        key = ("shared", function, arguments.key)
        if key in self._not_shared:
            raise self._not_shared[key]
        if key not in self._steps:
            self._steps[key] = self._compile_shared(key, function, arguments)
        if not self._is_settled:
            self.settle()
        step = self._steps[key]
        try:
            self._compiler.check_parts(step.captured, arguments, local=False)
        except CaptureError as error:
            self._not_shared[key] = NotSharedError(error.message)
            raise self._not_shared[key] from error
        values = self._execute(step, arguments, local=False, trains=False)
        return step.captured.pack([_tensor(value) for value in values])

    def any_worker(self, flag: bool) -> bool:
        """Whether any worker says so; all must ask. Costs as little as joining one number in a step.

        Before the first training step it is True.
        """
        if not self._compiler.can_share:
            return True
        arguments = flatten((np.full([1], flag, np.float32).view(LocalArray),), {})
        if _sum not in self._steps:
            self._steps[_sum] = self._compiler.compile_shared(_sum, arguments, local=True)
        step = self._steps[_sum]
        if len(step.graph.layout.senders) < self.worker.world_size:
            return True  # a worker without replicas has no part in what is joined
        with self.worker.interruption.together(), self._watchdog.step(), peer_failures(self.worker):
            return bool(step.run(step.feeds(arguments, local=True))[0] > 0)

    def check_batches(self) -> None:
        """See that all workers have had the same batches so far; all must ask.

        Raises:
            UsageError: They have not.
        """
        self.decisions.agree(False, "evaluates or predicts")

    def _compile_shared(self, key: Any, function: Callable[..., Any], arguments: Arguments) -> CompiledStep:
        self.settle()
        try:
            return self._compiler.compile_shared(function, arguments)
        except NotSharedError as error:
            self._not_shared[key] = error
            _LOG.info("evaluation or prediction: every worker takes whole batches, because %s", error.message)
            raise

    def _train(self, function: Callable[..., Any], arguments: Arguments) -> Any:
        arguments = self._splits.of(function, arguments)
        local = arguments.is_local or self._convention.batch == "local"
        self._check_batch_is_whole(local)
        step = self._step(function, arguments, local, own=local and not arguments.is_local)
        began_s = time.perf_counter()
        values = self._execute(step, arguments, local)
        took_s = time.perf_counter() - began_s
        strategy = self._first_steps.after_step(took_s) if step.captured.graph.trainable else None
        if strategy is not None:
            self._change(strategy, (function, arguments.key), arguments, local)
        if self._recorder is not None:
            self._recorder.step(values, self.worker.rank, self.close)
        return step.captured.pack([_tensor(value) for value in values])

    def _step(self, function: Callable[..., Any], arguments: Arguments, local: bool, *, own: bool) -> CompiledStep:
        """The compiled step for a function and arguments of this kind; see :meth:`Trials.run`."""
        key = (function, arguments.key)
        known = self._steps.get(key)
        if known is not None:
            self._compiler.check_parts(known.captured, arguments, local=local)
            return known
        self.settle()
        with self._plain.capturing((function, arguments.given)):
            captured = self._compiler.capture(function, arguments, local=local)
            self._plain.check_asks_no_rows(captured)
        has_batch = captured.graph.has_batch or self.num_replicas == 1
        if self._trials is not None and has_batch:
            self._trials.run(captured, arguments, local=local, own=own)
            raise SystemExit(0)
        step = self._compiled(captured, arguments, local) if has_batch else self._compiler.compile_alike(captured)
        self._steps[key] = step
        if self._recorder is not None:
            self.state.pull_all()  # compiling frees the eager copies of large variables
            roles = {v.name: v.role.value for v in captured.graph.variables}
            self._recorder.add_variables(captured.handles, roles)
        return step

    def _compiled(self, captured: CapturedStep, arguments: Arguments, local: bool) -> CompiledStep:
        """A step that trains, by its strategy, or by the first of those that are tried."""
        first = self._first_steps.begin(captured, is_first=not self.strategies)
        if first is not None:
            self._compiler = self._compiler_of(first)
        return self._compiler.compile_captured(captured, arguments, local=local)

    def _change(self, strategy: Strategy, key: Any, arguments: Arguments, local: bool) -> None:
        """Go on by another strategy, between two steps; what evaluates is compiled again when it is needed."""
        captured = self._steps[key].captured
        self.settle()
        self._compiler.leave()
        self._steps.clear()
        self._compiler = self._compiler_of(strategy)
        self._steps[key] = self._compiler.compile_captured(captured, arguments, local=local)

    def _compiler_of(self, strategy: Any) -> Compiler:
        number = next(self._compilers)
        scope = f"{self._scope}_{number}" if number else self._scope
        return Compiler(self.worker, self._spec, strategy, self._convention, self.state, scope)

    def _check_batch_is_whole(self, local: bool) -> None:
        """A part of a batch that lost its type on the way would be taken for the whole, and be split once more."""
        if self.has_local_batch and not local and self.worker.world_size > 1:
            raise UsageError(
                "the loop is over `ad.shard(dataset)`, whose batches are this worker's parts, but the step was given "
                "an array made from one of them, which looks like a whole batch",
                hint="do what changes the batch in `dataset.map(...)` before `ad.shard`, or in the step; or, if every "
                "batch is local, open the scope by `scope(batch='local')`",
            )
        self.has_local_batch = False

    def _execute(self, step: CompiledStep, arguments: Arguments, local: bool, *, trains: bool = True) -> list[Any]:
        with self.worker.interruption.together(counts=not step.graph.relaxed):
            return self._execute_begun(step, arguments, local, trains=trains)

    def _execute_begun(self, step: CompiledStep, arguments: Arguments, local: bool, *, trains: bool) -> list[Any]:
        self._check_not_failed()
        self.worker.whereabouts.take_part()
        fingerprint = self._batches.fingerprint(arguments)
        self.decisions.note_batch(fingerprint)
        feeds = step.feeds(arguments, local=local, fingerprint=fingerprint)
        self._settle_before(step)
        self.state.before_step()
        self.worker.in_step = True
        try:
            with (
                self._watchdog.step(waits=step.graph.waits),
                peer_failures(self.worker),
                self._batches.refusing(fingerprint),
            ):
                return step.run(feeds)
        except BaseException as error:
            self._failed = True
            # If the script catches this, the others would wait in vain: their watchdogs find this note.
            self.worker.whereabouts.stay(f"has failed in that step ({said_by(error)})")
            for server in step.servers:
                server.check()  # what has failed there is why this step did
            raise
        finally:
            self.worker.in_step = False
            self.worker.steps_taken += trains
            self.state.after_step(step.graph.relaxed)
            if step.graph.relaxed:
                self._is_settled = False
                self._settling.say()

    def _settle_before(self, step: CompiledStep) -> None:
        """Let servers catch up before another step trains the same variables, or the program's values take over."""
        relaxed = set(step.graph.relaxed)
        others = (o for o in self._steps.values() if o is not step)
        shared = any(other.taken and not relaxed.isdisjoint(other.graph.relaxed) for other in others)
        if shared or self.state.has_assigned(relaxed):
            self.settle()

    def settle(self) -> None:
        """Wait until servers have applied all that the workers have sent them; all workers must do so together.

        Raises:
            TimedOut: They did not within the time of a step.
            UsageError: The workers have taken different numbers of steps under a bounded staleness.
        """
        steps = [step for step in self._steps.values() if step.graph.relaxed]
        if steps and not self._failed:
            self._settling.settle(steps)
            self.state.settle()
            self._is_settled = True
            self.decisions.compare_batches("settles what servers still have to apply")
            self._average_statistics(steps)

    def _average_statistics(self, steps: Sequence[CompiledStep]) -> None:
        """Workers that don't wait for each other have statistics of their own until they meet."""
        names = dict.fromkeys(name for step in steps for name in averages(step.captured.graph))
        if names:
            counts = [len(devices) for devices in steps[0].graph.layout.replicas]
            self.state.average(list(names), counts)

    @contextlib.contextmanager
    def standstill(self) -> Iterator[None]:
        """Have the variables as they are after the steps so far, and the chief's copies current, while inside.

        Without servers that apply updates by themselves nothing can change before the chief takes its next step; with
        them, all workers wait here for each other.
        """
        is_relaxed = any(step.graph.relaxed for step in self._steps.values())
        self.settle()
        if self.worker.is_chief:
            self.state.pull_all()
        yield
        if is_relaxed:
            self._standstills += 1
            with self.worker.whereabouts.at("saves a checkpoint"):
                self._barrier(f"standstill/{self._scope}/{self._standstills}")

    def _check_not_failed(self) -> None:
        if self._failed and self.worker.world_size > 1:
            raise WorkerFailed(
                "a step has failed on this worker, so that the others wait for it in vain: training can't go on",
                hint="let the error of that step end the script",
            )

    def close(self) -> None:
        """Bring all values back to the program's variables; the session stays for the next time.

        Waits for the other workers: one that ended earlier would take its server away from them.
        """
        self.settle()
        with self.worker.whereabouts.at("has left the scope"):
            self.state.pull_all()
            self.state.push_all_next()
            if self._steps:
                self.decisions.meet("has left the scope")

    def abandon(self) -> None:
        """After an error: bring back what can be had without the other workers."""
        self.state.rescue()
        self.state.push_all_next()

    def _barrier(self, name: str) -> None:
        if self.worker.coordinator is not None and self.worker.world_size > 1:
            self.worker.coordinator.barrier(name, self.worker.environment.start_timeout_s)


def _sum(flags: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(flags)


def _tensor(value: Any) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(value)
