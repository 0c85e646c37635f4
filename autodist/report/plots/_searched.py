"""A search with its trials: what all pictures are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autodist.errors import UsageError
from autodist.search import BASELINE, Failure, Study, Trial, best_of
from autodist.wording import counted


@dataclass(frozen=True)
class Searched:
    """A search and its trials.

    Attributes:
        study: What was searched.
        trials: In the order of their numbers.

    Raises:
        UsageError: None of the trials was measured.
    """

    study: Study
    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        if not self.measured:
            raise UsageError(
                f"study {self.study.id} has no measured trial, but {counted(len(self.trials), 'trial')}",
                hint="see `autodist trials`, and go on by `autodist search --resume`",
            )

    @cached_property
    def measured(self) -> tuple[Trial, ...]:
        """The trials that did not fail."""
        return tuple(trial for trial in self.trials if trial.step_s is not None)

    @cached_property
    def known(self) -> dict[str, Trial]:
        """By name, the trials of strategies that users know."""
        known = (trial for trial in self.measured if is_baseline(trial))
        return {trial.origin.removeprefix(BASELINE).strip(): trial for trial in known}

    @cached_property
    def baselines(self) -> dict[str, float]:
        """By name, what strategies that users know take, in seconds."""
        return {name: step_s_of(trial) for name, trial in self.known.items()}

    @property
    def best(self) -> Trial:
        """The fastest trial; where there are rules, of those that obey them, as far as there are any."""
        found = best_of(self.trials, self.study.rules)
        assert found is not None, "one was measured"
        return found

    @cached_property
    def failures(self) -> Counter[str]:
        """How many trials failed for which reason."""
        return Counter(trial.outcome.reason for trial in self.trials if isinstance(trial.outcome, Failure))

    @cached_property
    def searcher(self) -> str:
        """The searcher that proposed most of the trials; empty if there are baselines alone."""
        origins = Counter(trial.origin for trial in self.trials if not is_baseline(trial))
        return next((origin for origin, _ in origins.most_common(1)), "")


def is_baseline(trial: Trial) -> bool:
    """Whether users know the strategy."""
    return trial.origin.startswith(BASELINE)


def step_s_of(trial: Trial) -> float:
    """Seconds of a step of a trial that was measured."""
    assert trial.step_s is not None
    return trial.step_s


def check_together(searches: Sequence[Searched]) -> None:
    """Check that searches can be compared: one graph, one cluster, one batch.

    Raises:
        UsageError: They can't; lists what differs.
    """
    first, *others = [searched.study for searched in searches]
    mistakes = []
    for study in others:
        parts = (
            ("graphs", study.graph == first.graph),
            ("clusters", study.spec == first.spec),
            ("batch sizes", study.batch_size == first.batch_size),
        )
        differ = [what for what, is_same in parts if not is_same]
        if differ:
            mistakes.append(f"studies {first.id} and {study.id} are of different {' and '.join(differ)}")
    if mistakes:
        raise UsageError(
            "\n".join([*mistakes, "only searches of one graph on one cluster are drawn together"]),
            hint="`autodist trials --studies` lists them; draw each into a file of its own",
        )
