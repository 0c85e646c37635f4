"""Execution of a scope's compiled steps: one at a time, and never alongside one that has failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from autodist.coordination import Watchdog, Worker, peer_failures
from autodist.error_text import said_by
from autodist.errors import WorkerFailed
from autodist.runtime._decisions import Decisions
from autodist.runtime._statistics import averages
from autodist.runtime._step import CompiledStep
from autodist.runtime._steps_taken import StepsTaken
from autodist.runtime.data import Arguments, BatchCheck, Convention
from autodist.runtime.state import StateStore


class Execution:
    """Runs the compiled steps of a scope, and waits until servers have applied their updates.

    Args:
        worker: This process.
        state: The scope's variables.
        decisions: How the workers compare the batches that they have had.
        convention: What a batch means.
        scope: What tells this scope from the others of the run.

    Attributes:
        steps: The compiled steps, by what their calls share.
        batches: Compares the workers' batches.
        is_settled: Whether servers have applied all updates.
    """

    def __init__(
        self, worker: Worker, state: StateStore, decisions: Decisions, convention: Convention, scope: str
    ) -> None:
        self.steps: dict[Any, CompiledStep] = {}
        self.batches = BatchCheck(worker, convention, scope)
        self.is_settled = True
        self._worker = worker
        self._state = state
        self._decisions = decisions
        self._scope = scope
        self._steps_taken = StepsTaken(worker, scope)
        self._watchdog = Watchdog(worker)
        self._standstills = 0
        self._failed = False

    @property
    def has_asynchronous(self) -> bool:
        """Whether there are steps whose servers apply updates by themselves."""
        return any(step.graph.asynchronous for step in self.steps.values())

    def joins(self, step: CompiledStep, arguments: Arguments) -> Any:
        """The sums over all workers of the numbers in the arguments; changes nothing."""
        with self._worker.interruption.together(), self._watchdog.step(), peer_failures(self._worker):
            return step.run(step.feeds(arguments, local=True))[0]

    def run(self, step: CompiledStep, arguments: Arguments, local: bool, *, trains: bool = True) -> list[Any]:
        """Run a step together with the other workers.

        Args:
            step: The step.
            arguments: Those of its call.
            local: Whether they are this worker's part of the global batch.
            trains: Whether it counts as a training step.

        Returns:
            Its tensor outputs, in flattened order.

        Raises:
            UsageError: The workers have different batches.
            WorkerFailed: Another worker is gone, or a step has failed before.
        """
        with self._worker.interruption.together(counts=not step.graph.asynchronous):
            return self._run(step, arguments, local, trains=trains)

    def _run(self, step: CompiledStep, arguments: Arguments, local: bool, *, trains: bool) -> list[Any]:
        self._check_not_failed()
        self._worker.whereabouts.take_part()
        fingerprint = self.batches.fingerprint(arguments)
        self._decisions.note_batch(fingerprint)
        feeds = step.feeds(arguments, local=local, fingerprint=fingerprint)
        self._settle_before(step)
        self._state.before_step()
        self._worker.in_step = True
        try:
            with (
                self._watchdog.step(waits=step.graph.waits),
                peer_failures(self._worker),
                self.batches.refusing(fingerprint),
            ):
                return step.run(feeds)
        except BaseException as error:
            self._failed = True
            # If the script catches this, the others would wait in vain: their watchdogs find this note.
            self._worker.whereabouts.stay(f"has failed in that step ({said_by(error)})")
            raise
        finally:
            self._worker.in_step = False
            self._worker.steps_taken += trains
            self._state.after_step(step.graph.asynchronous)
            if step.graph.asynchronous:
                self._steps_taken.say()
            self.is_settled = self.is_settled and not step.graph.asynchronous and not step.num_kept

    def _settle_before(self, step: CompiledStep) -> None:
        """Let servers catch up before another step trains the same variables, or the program's values take over.

        Gradients that are kept are applied before another step runs, and before what their updates read changes.
        """
        asynchronous = set(step.graph.asynchronous)
        others = (o for o in self.steps.values() if o is not step)
        shared = any(other.taken and not asynchronous.isdisjoint(other.graph.asynchronous) for other in others)
        kept = any(other.num_kept for other in self.steps.values() if other is not step)
        read = asynchronous.union(*(other.read_later for other in self.steps.values()))
        if shared or kept or self._state.has_assigned(read):
            self.settle()

    def settle(self) -> None:
        """Wait until all gradients are applied: those kept for later steps, and those that servers have been sent.

        All workers must do so together.

        Raises:
            TimedOut: They did not within the time of a step.
            UsageError: The workers have taken different numbers of steps under a bounded staleness.
        """
        if self._failed:
            return
        self.apply_kept()
        steps = [step for step in self.steps.values() if step.graph.asynchronous]
        if steps:
            self._steps_taken.settle(steps)
            self._state.settle()
            self._decisions.compare_batches("settles what servers still have to apply")
            self._average_statistics(steps)
        self.is_settled = True

    def apply_kept(self) -> None:
        """Apply the gradients that steps have kept for later ones; all workers must do so together.

        Raises:
            TimedOut: A worker does not come.
        """
        steps = [step for step in self.steps.values() if step.num_kept]
        if steps:  # one worker alone would meet the others' next step, and all would go on with other values
            self._steps_taken.settle(steps)
        for step in steps:
            while step.num_kept:
                self._worker.in_step = True
                try:
                    with self._watchdog.step(waits=step.graph.waits), peer_failures(self._worker):
                        step.apply_kept()
                except BaseException:
                    self._failed = True
                    raise
                finally:
                    self._worker.in_step = False
                    self._state.after_step()

    def _average_statistics(self, steps: Sequence[CompiledStep]) -> None:
        """Average the statistics of workers that don't wait for each other in their steps."""
        names = dict.fromkeys(name for step in steps for name in averages(step.captured.graph))
        if names:
            counts = [len(devices) for devices in steps[0].graph.layout.replicas]
            self._state.average(list(names), counts)

    @contextlib.contextmanager
    def standstill(self) -> Iterator[None]:
        """Have the variables as they are after the steps so far, and the chief's copies current, while inside.

        Without servers that apply updates by themselves nothing can change before the chief takes its next step; with
        them, all workers wait here for each other.
        """
        is_asynchronous = self.has_asynchronous
        self.settle()
        if self._worker.is_chief:
            self._state.pull_all()
        yield
        if is_asynchronous:
            self._standstills += 1
            coordinator, timeout_s = self._worker.coordinator, self._worker.environment.start_timeout_s
            assert coordinator is not None, "only workers of a run have asynchronous servers"
            with self._worker.whereabouts.at("saves a checkpoint"):
                coordinator.barrier(f"standstill/{self._scope}/{self._standstills}", timeout_s)

    def _check_not_failed(self) -> None:
        if self._failed and self._worker.world_size > 1:
            raise WorkerFailed(
                "a step has failed on this worker, and the others wait for it: training can't go on",
                hint="let the error of that step end the script",
            )
