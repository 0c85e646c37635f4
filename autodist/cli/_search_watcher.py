"""A search on the console while it goes on, and the command to type after it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autodist.cli.options import ClusterOptions, ScriptWords
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.search import Rule, Space, Trial, Utility
    from autodist.tuning import SearchRequest


class Watcher:
    """Shows a search while it goes on."""

    def __init__(self, request: SearchRequest) -> None:
        from autodist.report import SearchConsole
        from autodist.search import Time

        self.console = SearchConsole()
        self.trials: Sequence[Trial] = ()
        self._request = request
        self._rules: Sequence[Rule] = request.rules
        self._utility: Utility = Time()
        self._again = 0

    def noticed(self, text: str) -> None:
        """Show a line."""
        self.console.notice(text)

    def captured(self, space: Space, earlier: Sequence[Trial]) -> None:
        """Show what is searched."""
        from autodist.search import utility_of

        domain = space.domain
        size = sum(v.size_bytes for v in domain.variables) / 1e6
        variables, examples = counted(len(domain.variables), "variable"), counted(domain.batch_size, "example")
        self.console.notice(f"graph: {variables}, {size:.1f} MB, {examples}")
        self.console.notice(f"space: about 10^{space.log10_size:.0f} strategies; profile: {domain.profile.source}")
        for aspect in self._request.not_simulated:
            self.console.notice(
                f"{aspect}: simulators assume that all workers wait in a step, so only trials tell what not waiting "
                "gains, and none tells how many steps more a training takes"
            )
        if earlier:
            self.console.notice(f"goes on after {counted(len(earlier), 'trial')}")
        if space.rules != self._request.rules:
            self.console.notice(f"rules of the earlier search: {' '.join(map(str, space.rules))}")
        self._rules = space.rules
        self._utility = utility_of(self._request.utility, domain.spec)

    def again(self, trials: Sequence[Trial], left_s: float) -> None:
        """Show how far the best were measured again."""
        self._again += 1
        self.tried(trials, left_s)

    def tried(self, trials: Sequence[Trial], left_s: float | None) -> None:
        """Show the progress."""
        from autodist.report import SearchProgress
        from autodist.search import BASELINE, Failure, best_of

        self.trials = trials
        failed: Counter[str] = Counter(t.outcome.reason for t in trials if isinstance(t.outcome, Failure))
        measured = [trial for trial in trials if trial.step_s is not None]
        known = [trial for trial in measured if trial.origin.startswith(BASELINE)]
        best = best_of(measured, self._rules, self._utility)
        baseline = min(known, key=_step_s, default=None)
        self.console.progress(
            SearchProgress(
                len(trials),
                self._request.budget.trials,
                failed,
                None if best is None else best.step_s,
                "" if baseline is None else baseline.origin.removeprefix(f"{BASELINE} "),
                None if baseline is None else baseline.step_s,
                left_s,
                self._again,
            )
        )


def _step_s(trial: Trial) -> float:
    assert trial.step_s is not None
    return trial.step_s


def next_command(script: ScriptWords, cluster: ClusterOptions, path: Path, seed: int | None = None) -> str:
    """Return the command that trains by the strategy of a file."""
    given = [*cluster.words, *([] if seed is None else ["--seed", str(seed)])]
    arguments = ["--", *script.args] if script.args else []
    return shlex.join(["autodist", "run", *script.words, *given, "--strategy", str(path), *arguments])
