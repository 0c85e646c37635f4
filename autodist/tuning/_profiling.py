"""Profiles of what a search or `autodist profile` runs: measured once, then from the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autodist.errors import SimulatorError, WorkerFailed
from autodist.graph import TrainingGraph
from autodist.launch import ClusterLauncher, Job
from autodist.runtime.measuring import ProfileOrder
from autodist.search import Failure
from autodist.simulator import Profile, ProfileCache
from autodist.tuning._measurer import LaunchedMeasurer
from autodist.tuning._served import served


@dataclass(frozen=True)
class ProfiledStep:
    """The profile of a script's first training step.

    Attributes:
        graph: The step.
        profile: Its profile.
        path: Where the cache has it; None if it can't be written.
    """

    graph: TrainingGraph
    profile: Profile
    path: Path | None


def profile(
    job: Job, launcher: ClusterLauncher, order: ProfileOrder, cache: ProfileCache, notice: Callable[[str], None]
) -> ProfiledStep:
    """Profile the first training step of a script again, and keep the profile.

    The script runs up to that step in every worker of the job; the chief's runs it as one replica does, but alone.

    Args:
        job: The script and the cluster.
        launcher: Starts the workers.
        order: How many steps are measured.
        cache: Where profiles are kept.
        notice: Told what went wrong and does no harm; called from another thread.

    Raises:
        LaunchError: The workers could not be started.
        SearchFailed: The script has no training step, or fails before it.
        SearchInterrupted: Ctrl-C.
        WorkerFailed: The step could not be measured.
    """
    measurer = LaunchedMeasurer(launcher, job, restarts=False)

    def act() -> ProfiledStep:
        _, graph = measurer.captured()
        return _measured(measurer, graph, order, cache, notice)

    return served(measurer, act, "autodist profile")


def find_profile(
    measurer: LaunchedMeasurer, graph: TrainingGraph, cache: ProfileCache, notice: Callable[[str], None]
) -> Profile | None:
    """The profile of a measurer's captured step: the cache's, else a new one, which is kept; None if that fails.

    Args:
        measurer: The measurer whose workers have captured the step.
        graph: The step.
        cache: Where profiles are kept.
        notice: Told where the profile is from, or why there is none.
    """
    assert measurer.subject is not None, "the step is captured first"
    try:
        known = cache.load(graph, measurer.subject)
    except SimulatorError as error:
        notice(f"the profile is made again: {error.message}")
        known = None
    if known is not None:
        notice(f"profile: {cache.path(graph, measurer.subject)}")
    else:
        try:
            known = _measured(measurer, graph, ProfileOrder(), cache, notice).profile
        except WorkerFailed as error:
            notice(error.message)
    if known is not None and known.is_disturbed:
        notice("the step waited most of the time while it was profiled; `autodist profile` makes the profile again")
    return known


def _measured(
    measurer: LaunchedMeasurer,
    graph: TrainingGraph,
    order: ProfileOrder,
    cache: ProfileCache,
    notice: Callable[[str], None],
) -> ProfiledStep:
    trace = measurer.profile(order)
    if isinstance(trace, Failure):
        raise WorkerFailed(
            f"the step could not be profiled ({trace.reason}): {trace.message}",
            hint="`autodist search` uses an estimate then",
        )
    measured = Profile.measured(graph, trace)
    try:
        return ProfiledStep(graph, measured, cache.save(graph, trace.subject, measured))
    except OSError as error:
        notice(f"the profile can't be kept in `{cache.directory}`: {error.strerror or error}")
        return ProfiledStep(graph, measured, None)
