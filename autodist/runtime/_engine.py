"""The engine of a scope: runs its training steps, compiling those that are new."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from autodist.coordination import Worker
from autodist.errors import CaptureError, FixedRowsError
from autodist.garbage import old_objects_stay
from autodist.graph import CapturedStep, NoGradientError, draws_by_kernels
from autodist.resource_spec import ResourceSpec
from autodist.runtime._array_programs import ArrayPrograms
from autodist.runtime._compile import Compiler
from autodist.runtime._decisions import Decisions
from autodist.runtime._exchange_costs import ExchangeCosts
from autodist.runtime._execution import Execution
from autodist.runtime._looped_programs import Dims
from autodist.runtime._online import FirstSteps
from autodist.runtime._plain import PlainSteps
from autodist.runtime._recorder import Recorder
from autodist.runtime._shared_steps import SharedSteps
from autodist.runtime._small_batches import SmallBatches
from autodist.runtime._step import CompiledStep
from autodist.runtime._untrained import WholeBatches
from autodist.runtime.data import (
    NOTHING_DECLARED,
    Arguments,
    ArgumentSplits,
    Convention,
    Declared,
    LocalBatches,
    check_is_global,
    flatten,
    flatten_batch,
)
from autodist.runtime.state import StateStore
from autodist.strategies import Strategy, StrategyLike

_LOG = logging.getLogger("autodist")
_numbers = itertools.count()


class Engine:
    """Runs the training steps of one scope.

    Args:
        worker: This process.
        spec: The cluster.
        strategy: A builder, a strategy, a builder's name or a file.
        convention: What a batch and a loss mean.
        recorder: Records the first steps, for a comparison of two runs; None to record nothing.

    Attributes:
        worker: This process.
        state: The scope's variables.
        decisions: How the workers agree on what callbacks decide.
        local_batches: The batches of loops over ``ad.shard`` datasets.
        applied_alike: Names of optimizers that all workers have applied outside of steps.
    """

    captures_all: ClassVar[bool] = False
    """Whether a step that can't be captured is refused on one device as well."""

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        strategy: StrategyLike,
        convention: Convention,
        recorder: Recorder | None = None,
    ) -> None:
        scope = str(next(_numbers))
        self.worker = worker
        self.state = StateStore(worker, scope)
        self.decisions = Decisions(worker, self.state, scope)
        self._execution = execution = Execution(worker, self.state, self.decisions, convention, scope)
        self.local_batches = LocalBatches(worker, scope, lambda: execution.has_asynchronous)
        self.applied_alike: set[str] = set()
        self._spec = spec
        self._convention = convention
        self._recorder = recorder
        self._exchange_costs = ExchangeCosts(worker, spec)
        self._first_steps = FirstSteps(worker, spec, strategy, scope)
        self._splits = ArgumentSplits(len(spec.replicas), tells=worker.is_chief)
        self._fixed: dict[Any, FixedRowsError] = {}
        """By kind of call, why its steps are for one number of rows each."""
        self._drawing: set[Any] = set()
        """Kinds of calls whose random numbers TensorFlow restarts in each trace, hence for each number of rows."""
        self._relaxed: dict[Any, set[Any]] = {}
        """The traces of functions that draw such numbers."""
        self._scope = scope
        is_alone = worker.world_size == 1 and self.num_replicas == 1
        self._plain = PlainSteps(worker, is_allowed=is_alone and not self.captures_all and recorder is None)
        self._compilers = itertools.count()
        self._wanted = strategy
        self._compiler = self._compiler_of()
        self._whole_batches = WholeBatches(worker, scope)
        self._small_batches = SmallBatches(worker, spec, convention, execution, lambda: self._compiler)
        self._shared = SharedSteps(
            worker, execution, lambda: self._compiler, convention, self._splits, self._small_batches
        )
        self._arrays = ArrayPrograms(
            worker, execution, self._plain, lambda: self._compiler, convention, self.num_replicas, self._ends_anywhere
        )

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies in use, one per traced step, in the order of tracing."""
        return self._compiler.strategies

    @property
    def num_replicas(self) -> int:
        """Replicas in all; 1 means that nothing has to be synchronized."""
        return len(self._spec.replicas)

    def gather(self, place: str = "takes up training again") -> None:
        """Wait for the other workers: after batches of a dataset were passed over, no steps have kept them together.

        Args:
            place: What this worker is about to do, in words that follow its name.
        """
        self.decisions.meet(place)

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
        declared: Declared = NOTHING_DECLARED,
    ) -> Any:
        """Run a training step on a batch; traces it when it is new.

        Args:
            function: The step.
            args: Its arguments.
            kwargs: Its keywords.
            plain: Calls it as TensorFlow does without a scope, which is done on one device if it can't be captured.
            declared: The shapes with which TensorFlow would trace it then.

        Raises:
            CaptureError: The step can't be captured.
            StrategyError: The strategy does not fit it.
            UsageError: The arguments are not a batch.
            WorkerFailed: Another worker is gone.
        """

        def flattened() -> Arguments:
            return flatten(args, kwargs, declared=declared, pads=self.num_replicas > 1)

        return self._plain.call(function, flattened, plain, lambda found: self._train(function, found))

    def run_batch(
        self,
        function: Callable[..., Any],
        batch: Any,
        plain: Callable[[], Any] | None = None,
        *,
        declared: Declared = NOTHING_DECLARED,
    ) -> Any:
        """Run a training step of Keras, which takes one structure of arrays; see :meth:`run`."""

        def flattened() -> Arguments:
            return flatten_batch(batch, declared=declared, pads=self.num_replicas > 1)

        def train(found: Arguments) -> Any:
            try:
                return self._train(function, found)
            except NoGradientError:
                if plain is None or any(self._splits.of(function, found).split):
                    raise
            return self._plain.run(plain)  # all workers do, alike

        return self._plain.call(function, flattened, plain, train)

    def run_untrained(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a step that trains nothing on a batch that every worker has its part of; see :class:`WholeBatches`."""
        self.local_batches.is_pending = False
        self.settle()
        return self._whole_batches.run(function, flatten(args, kwargs))

    def run_arrays(
        self, function: Callable[..., Any], args: Any, kwargs: Any, plain: Callable[[], Any], dims: Dims | None
    ) -> Any:
        """Run a function of arrays that every worker has whole; see :meth:`ArrayPrograms.run`."""
        return self._arrays.run(function, args, kwargs, plain, dims)

    @property
    def can_share(self) -> bool:
        """Whether the replicas can share the batches of steps that train nothing: from the first training step on."""
        return self._shared.can_share

    def run_shared(self, function: Callable[..., Any], batch: Any, *, declared: Declared = NOTHING_DECLARED) -> Any:
        """Run a step of Keras that trains nothing on a batch that the replicas share; see :meth:`SharedSteps.run`."""
        return self._shared.run(function, batch, declared)

    def _ends_anywhere(self, ends: bool, place: str) -> bool:
        """Whether any worker says that a loop ends."""
        found = self._shared.joined(ends)
        return self.decisions.agree(ends, place) if found is None else found

    def any_worker(self, flag: bool) -> bool:
        """Whether the flag is set on any worker; see :meth:`SharedSteps.any_worker`."""
        return self._shared.any_worker(flag)

    def check_batches(self) -> None:
        """Check that all workers have had the same batches so far; all must call this.

        Raises:
            UsageError: They have not.
        """
        self.decisions.agree(False, "evaluates or predicts")

    def prepare(self, function: Callable[..., Any], batch: Any, *, declared: Declared = NOTHING_DECLARED) -> None:
        """Compile a training step of Keras for batches like this one, without running it; all workers must do so."""
        self._ready(function, flatten_batch(batch, declared=declared, pads=self.num_replicas > 1))

    def _ready(self, function: Callable[..., Any], arguments: Arguments) -> tuple[CompiledStep, Arguments, bool]:
        """The compiled step, its arguments as the replicas get them, and whether they are this worker's part."""
        arguments = self._splits.of(function, arguments)
        local = arguments.is_local or self._convention.brings_own(arguments.is_global)
        check_is_global(arguments, local=local)
        self.local_batches.check_is_whole(local)
        few = self._small_batches.ready(
            function,
            arguments,
            lambda compiler, given, rows: compiler.capture_examples(function, given, rows, trains=True),
            lambda captured, whole: self._compiled(captured, whole, False),
            local=local,
        )
        if few is not None:
            return *few, False
        step, arguments = self._splits.traced(function, arguments, lambda found: self._step(function, found, local))
        return step, arguments, local

    def _train(self, function: Callable[..., Any], arguments: Arguments) -> Any:
        step, arguments, local = self._ready(function, arguments)
        began_s = time.perf_counter()
        values = self._execution.run(step, arguments, local)
        took_s = time.perf_counter() - began_s
        self._exchange_costs.after_step(step, took_s)
        if step.captured.graph.trainable:
            key = self._key(function, arguments, local)
            self._first_steps.after_step(took_s, lambda strategy: self._change(strategy, key))
        if self._recorder is not None:
            self._recorder.step(values, self.worker.rank, self.close)
        return step.result(values)

    def _step(self, function: Callable[..., Any], arguments: Arguments, local: bool) -> CompiledStep:
        """The compiled step for a function and arguments of this kind; see :meth:`_compiled`."""
        known = self._known(function, arguments, local)
        if known is None:
            return self._new_step(function, arguments, local)
        known.captured.check_lengths([array.shape for array in arguments.arrays])
        return known

    @old_objects_stay()
    def _new_step(self, function: Callable[..., Any], arguments: Arguments, local: bool) -> CompiledStep:
        """Trace and compile a step that is not known yet."""
        self.settle()
        key = (function, arguments.key)
        reason = self._fixed.get(key)
        with self._plain.capturing((function, arguments.given)):
            captured = (
                self._compiler.tracing.capture(function, arguments, local=local)
                if reason is None
                else self._compiler.tracing.capture_fixed(function, arguments, reason, local=local)
            )
            self._plain.check_asks_no_rows(captured)
        if captured.reason is not None:
            self._fixed[key] = captured.reason
        if arguments.whole is not None and draws_by_kernels(captured.graph):
            raise CaptureError("it draws random numbers by kernels, which would start again for each width of padding")
        if draws_by_kernels(captured.graph):
            self._splits.check_traced_once(function, arguments)
            self._drawing.update(() if arguments.has_open_rows else (key,))
            self._note_drawing(function, arguments, self._key(function, arguments, local))
        key = self._key(function, arguments, local)
        has_batch = captured.graph.has_batch or self.num_replicas == 1
        step = self._compiled(captured, arguments, local) if has_batch else self._compiler.compile_alike(captured)
        self._execution.steps[key] = step
        if self._recorder is not None:
            self.state.pull_all()  # compiling frees the eager copies of large variables
            roles = {v.name: v.role.value for v in captured.graph.variables}
            self._recorder.add_variables(captured.handles, roles)
        return step

    def _note_drawing(self, function: Callable[..., Any], arguments: Arguments, key: Any) -> None:
        """Refuse a third trace of a step whose random numbers go on in the second one where TensorFlow runs it."""
        traces = self._relaxed.setdefault(function, set())
        traces.add(key)
        if arguments.declared.relaxes and len(traces) > 2:
            raise CaptureError(
                "the step draws random numbers by kernels, which begin again in each trace, and has "
                "`reduce_retracing`, so that one device traces it for any shape from the second one on",
                hint="give it an `input_signature` instead, or draw by `tf.random.Generator`, which keeps its state "
                "in a variable",
            )

    def _key(self, function: Callable[..., Any], arguments: Arguments, local: bool) -> Any:
        """The key that calls of one compiled step share: with their number of rows, if it is for one number only."""
        key = (function, arguments.key)
        is_by_rows = key in self._fixed or key in self._drawing
        return (*key, self._compiler.tracing.rows_of(arguments, local=local)) if is_by_rows else key

    def _known(self, function: Callable[..., Any], arguments: Arguments, local: bool) -> CompiledStep | None:
        """The compiled step that serves such a call; None if there is none yet."""
        step = self._execution.steps.get(self._key(function, arguments, local))
        if step is None or step.captured.reason is not None:
            return step
        try:
            self._compiler.tracing.check_parts(step.captured, arguments, local=local)
        except FixedRowsError as error:
            self._fixed[function, arguments.key] = error
            return None
        return step

    def _compiled(self, captured: CapturedStep, arguments: Arguments, local: bool) -> CompiledStep:
        """A step that trains, by its strategy, or by the first of those that are tried."""

        def take(strategy: Strategy) -> bool:
            self._compiler = self._compiler_of(strategy)
            return self._compiler.plan(captured) is not None

        self._first_steps.begin(captured, take, is_first=not self.strategies)
        return self._compiler.compile_captured(captured, arguments)

    def _change(self, strategy: Strategy, key: Any) -> bool:
        """Switch to another strategy between two steps; return False and keep the old one if it can't be compiled.

        Evaluation steps are compiled again when they are needed.
        """
        compiler = self._compiler_of(strategy)
        with self.worker.whereabouts.at("goes over to another strategy"):
            plan = compiler.plan(self._execution.steps[key].captured)
            if plan is None:
                return False
            self.settle()
            self._compiler.leave()
            self._execution.steps.clear()
            self._compiler = compiler
            self._execution.steps[key] = compiler.commit(plan)
        return True

    def _compiler_of(self, first: Strategy | None = None) -> Compiler:
        number = next(self._compilers)
        scope = f"{self._scope}_{number}" if number else self._scope
        options = {"may_run_plainly": self._plain.is_allowed}
        return Compiler(
            self.worker, self._spec, self._wanted, self._convention, self.state, scope, first=first, **options
        )

    def settle(self) -> None:
        """Wait until servers have applied all that the workers have sent them; see :meth:`Execution.settle`."""
        self._execution.settle()

    def apply_kept(self) -> None:
        """Apply the gradients that steps have kept for later ones; see :meth:`Execution.apply_kept`."""
        self._execution.apply_kept()

    def standstill(self) -> AbstractContextManager[None]:
        """Keep the variables as they are after the steps so far while inside; see :meth:`Execution.standstill`."""
        return self._execution.standstill()

    def close(self) -> None:
        """Bring all values back to the program's variables; the session stays for the next time.

        Waits for the other workers: one that ended earlier would take its server away from them.
        """
        self.settle()
        with self.worker.whereabouts.at("has left the scope"):
            self.state.pull_all()
            self.state.push_all_next()
            if self._execution.steps:
                self.decisions.meet("has left the scope")

    def abandon(self) -> None:
        """After an error, bring back the values that can be had without the other workers."""
        self.state.rescue()
        self.state.push_all_next()
