"""A step of a script on all workers, traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autodist.errors import WorkerFailed
from autodist.graph import TrainingGraph
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.search import Failure
from autodist.strategies import Strategy
from autodist.timeline import StepTimeline
from autodist.tuning._measurer import LaunchedMeasurer
from autodist.tuning._served import served
from autodist.tuning._turns import TrialSchedule


@dataclass(frozen=True)
class TracedStep:
    """A step that was measured and traced.

    Attributes:
        strategy: The strategy by which it ran.
        step_s: Seconds of a step that is not traced, the median.
        timeline: Timeline of the traced step.
    """

    strategy: Strategy
    step_s: float
    timeline: StepTimeline


def timeline(
    job: Job,
    launcher: ClusterLauncher,
    choose: Callable[[TrainingGraph, ResourceSpec], Strategy],
    schedule: TrialSchedule,
) -> TracedStep:
    """Trace the first training step of a script on all workers of a job; nothing is trained.

    Args:
        job: The script and the cluster.
        launcher: Starts the workers.
        choose: The strategy for the step; called in another thread.
        schedule: What is measured before the traced step.

    Raises:
        LaunchError: The workers could not be started.
        SearchFailed: The script has no training step, or fails before it.
        SearchInterrupted: Ctrl-C.
        WorkerFailed: The step could not be run by the strategy.
    """
    measurer = LaunchedMeasurer(launcher, job, schedule, restarts=False)

    def act() -> TracedStep:
        _, graph = measurer.captured()
        strategy = choose(graph, job.spec)
        found = measurer.trace(strategy)
        if isinstance(found, Failure):
            raise WorkerFailed(
                f"the step could not be traced ({found.reason}): {found.message}",
                hint="`autodist run` with the same strategy shows all that the workers have to say",
            )
        measured, traced = found
        return TracedStep(strategy, measured.step_s, traced)

    return served(measurer, act, "autodist timeline")
