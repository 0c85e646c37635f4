"""A search that Python begins, watches and goes on with: it reads like a study of Optuna."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from autodist.errors import UsageError
from autodist.installation import trials_file
from autodist.launch import ClusterLauncher, Job, SilentObserver
from autodist.resource_spec import ResourceSpec
from autodist.search import Rule, SearchBudget, SearchPlan, Space, Trial, TrialsView
from autodist.simulator import ProfileCache
from autodist.strategies import StrategyLike
from autodist.tuning._measured_search import SearchRequest, search
from autodist.tuning._search_result import SearchResult
from autodist.tuning._turns import TrialSchedule

StudyCallback: TypeAlias = "Callable[[OpenStudy, Trial], None]"
_PLAN = SearchPlan(finalists=3, reference=10)


@dataclass
class OpenStudy(TrialsView):
    """Searches strategies for a script, and has the trials so far; each is in the store as soon as it has ended.

    Attributes:
        request: What is searched, and how.
        result: What the last :meth:`optimize` came to; None before.
    """

    request: SearchRequest
    result: SearchResult | None = None
    _trials: tuple[Trial, ...] = field(default=(), repr=False)
    _rules: tuple[Rule, ...] = field(default=(), repr=False)
    _is_stopped: bool = field(default=False, repr=False)
    _script: Path | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"the study in `{self.request.store}`"

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials so far; those of an earlier search that was taken up come first."""
        return self._trials

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The choices that are pinned and forbidden."""
        return self._rules or self.request.rules

    def optimize(
        self,
        script: str | os.PathLike[str],
        spec: ResourceSpec | str | os.PathLike[str],
        *,
        n_trials: int = 200,
        timeout: float | None = None,
        callbacks: Sequence[StudyCallback] = (),
        script_args: Sequence[str] = (),
    ) -> SearchResult:
        """Measure strategies for the first training step of a script, as ``autodist search`` does.

        A second call goes on where the first has ended, with further trials. Call it in the main thread, which Ctrl-C
        reaches.

        Args:
            script: The training script.
            spec: The cluster, or its file.
            n_trials: How many trials are added, at least 1.
            timeout: Seconds after which no trial begins, from 0.
            callbacks: Called with the study and each trial that has ended, in another thread; also with each that was
                measured again.
            script_args: Arguments of the script.

        Raises:
            UsageError: A number is not allowed, or the study is of another script.
            AutoDistError: As :func:`search`.
        """
        self._check(n_trials, timeout, Path(script))
        cluster = spec if isinstance(spec, ResourceSpec) else ResourceSpec.from_file(Path(spec))
        job = Job(Path(script), cluster, tuple(script_args))
        self._is_stopped = False
        goes_on = self.request.may_resume or self.result is not None
        budget = SearchBudget(n_trials, timeout)
        request = replace(
            self.request, budget=budget, may_resume=goes_on, adds=True, is_stopped=lambda: self._is_stopped
        )
        watcher = _Watcher(self, tuple(callbacks))
        self.result = search(request, job, ClusterLauncher(SilentObserver()), watcher)
        self._trials = self.result.trials
        self._script = Path(script)
        return self.result

    def _check(self, n_trials: int, timeout: float | None, script: Path) -> None:
        mistakes = []
        if not isinstance(n_trials, int) or n_trials < 1:
            mistakes.append(f"`n_trials` is {n_trials}, allowed: a whole number from 1")
        if timeout is not None and not timeout >= 0:
            mistakes.append(f"`timeout` is {timeout}, allowed: seconds from 0, or None")
        if self._script not in (None, script):
            mistakes.append(f"{self} is of `{self._script}`: make one of its own for another script by `create_study`")
        if mistakes:
            raise UsageError("\n".join(mistakes))

    def enqueue_trial(self, strategy: StrategyLike) -> None:
        """Have the next :meth:`optimize` measure this strategy too, before it proposes any.

        Args:
            strategy: A builder with its arguments, a file or a plan, as :func:`autodist.strategies.get` takes them.

        Raises:
            UsageError: It is unknown, or its file can't be read.

        Example:
            >>> study = create_study("runs/trials.db")
            >>> study.enqueue_trial("AllReduce(chunk_size=16)")
            >>> study.request.also
            ('AllReduce(chunk_size=16)',)
        """
        self.request = replace(self.request, also=(*self.request.also, strategy))

    def stop(self) -> None:
        """End :meth:`optimize` after the trial that is being measured; for callbacks."""
        self._is_stopped = True

    def _knows(self, trials: Sequence[Trial], rules: tuple[Rule, ...] | None = None) -> None:
        self._trials = tuple(sorted(trials, key=lambda trial: trial.number))
        self._rules = self._rules if rules is None else rules


@dataclass(frozen=True)
class _Watcher:
    """Tells callbacks of what a search does."""

    study: OpenStudy
    callbacks: tuple[StudyCallback, ...]

    def noticed(self, text: str) -> None:
        """Do nothing: callbacks are for trials."""

    def captured(self, space: Space, earlier: Sequence[Trial]) -> None:
        """Give the study the trials from before."""
        self.study._knows(earlier, tuple(space.rules))

    def tried(self, trials: Sequence[Trial], left_s: float) -> None:
        """Tell callbacks of the last trial."""
        self._tell(trials, trials[-1])

    def again(self, trials: Sequence[Trial], left_s: float) -> None:
        """Tell callbacks of the trial that was measured last."""
        self._tell(trials, max(trials, key=lambda trial: max((one.ended_s for one in trial.again), default=0.0)))

    def _tell(self, trials: Sequence[Trial], trial: Trial) -> None:
        self.study._knows(trials)
        for callback in self.callbacks:
            callback(self.study, trial)


def create_study(
    storage: str | os.PathLike[str] | None = None,
    *,
    sampler: str = "random",
    simulator: str = "events",
    fix: Sequence[str] = (),
    exclude: Sequence[str] = (),
    load_if_exists: bool = False,
    seed: int = 0,
    schedule: TrialSchedule | None = None,
    plan: SearchPlan = _PLAN,
) -> OpenStudy:
    """Begin a search in Python.

    Args:
        storage: The store that keeps the trials, ``runs/trials.db`` by default; several searches may write into one.
        sampler: The searcher: ``"random"``, ``"genetic"`` or ``"local"``.
        simulator: The simulator that ranks proposals, or the file of one that has learned.
        fix: What is pinned, as ``autodist search --fix`` has it.
        exclude: What is forbidden, as ``--exclude`` has it.
        load_if_exists: Whether to take up the last search of the same graph on the same cluster, if there is one.
        seed: The seed of the sampler.
        schedule: How a trial goes.
        plan: How proposals become trials.

    Raises:
        UsageError: There is no such sampler or simulator, or a rule says nothing; all mistakes at once.

    Example:
        >>> study = create_study("runs/trials.db", sampler="local", exclude=["partition"])
        >>> study.trials
        ()
        >>> study.optimize("train.py", "cluster.yml", n_trials=100)                          # doctest: +SKIP
        >>> study.best_trial.step_s                                                          # doctest: +SKIP
    """
    return OpenStudy(
        SearchRequest(
            Path(storage or trials_file()), schedule=schedule or TrialSchedule(), plan=plan, searcher=sampler,
            simulator=simulator, rules=Rule.all_of(fix, exclude), may_resume=load_if_exists, seed=seed,
            profiles=ProfileCache.of_user(),
        )
    )  # fmt: skip
