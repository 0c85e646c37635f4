"""The workers' agreement when they compile a step: one strategy, and that they see the same program."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodist.coordination._worker import Worker
from autodist.error_text import said_by
from autodist.errors import AutoDistError, CaptureError, GraphError, TimedOut, UsageError

if TYPE_CHECKING:  # launchers, and workers until they train, do without
    from autodist.graph import CapturedStep, Identity, TrainingGraph
    from autodist.graph.layouts import Exchanged
    from autodist.strategies import Strategy

_LOG = logging.getLogger("autodist")
_LARGEST_KEPT_BYTES = 64 * 10**6
_MUCH_WHOLE = 0.1
"""The share of a step's work that users are told of if replicas don't share it, though they have parts of weights."""


@dataclass(frozen=True)
class Agreement:
    """How the workers agree on the steps of one scope.

    Attributes:
        worker: This process.
        scope: What tells this scope from the others of the run.
    """

    worker: Worker
    scope: str
    _exchanges: Iterator[int] = field(default_factory=itertools.count)

    def strategy(
        self, number: int, captured: CapturedStep, batch: int | None, propose: Callable[[], Strategy]
    ) -> Strategy:
        """The strategy for a captured step: the chief's, on every worker.

        Args:
            number: Number of the step within the scope.
            captured: The step as this worker traced it.
            batch: A hash of the batch if it must be the same on all workers.
            propose: Makes the strategy; called on the chief.

        Raises:
            CaptureError: The chief has traced something else.
            UsageError: The chief was given another batch.
            TimedOut: The chief does not trace this step.
        """
        coordinator = self.worker.coordinator
        if coordinator is None or self.worker.world_size == 1:
            return propose()
        key = f"strategy/{self.scope}/{_numbered(number, captured)}"
        mine = _Seen.of(captured.graph, batch)
        if self.worker.is_chief:
            return self._proposed(key, mine, captured, propose)
        try:
            content = coordinator.get(key, self.worker.environment.start_timeout_s)
        except TimedOut as error:
            raise self._alone(number, error) from error
        seen, text, reason = json.loads(content)
        self._check_same(mine, _Seen.from_json(seen))
        if reason is not None:
            raise CaptureError(reason)
        from autodist.strategies import Strategy

        return Strategy.from_json(text)

    def _proposed(self, key: str, mine: _Seen, captured: CapturedStep, propose: Callable[[], Strategy]) -> Strategy:
        """The chief's strategy, which the others get; or why there is none, if the step is traced otherwise then."""
        coordinator = self.worker.coordinator
        assert coordinator is not None
        try:
            strategy = propose()
        except AutoDistError as error:
            if captured.is_tried:
                coordinator.put(key, json.dumps([mine.to_json(), "", error.message]).encode())
            raise
        coordinator.put(key, json.dumps([mine.to_json(), strategy.to_json(), None]).encode())
        return strategy

    def same(self, number: int, captured: CapturedStep, batch: int | None) -> None:
        """Check that the chief runs the same step, which trains nothing, on the same batch.

        Args:
            number: Number of the step among those of the scope that train nothing.
            captured: The step as this worker traced it.
            batch: A hash of the batch if it must be the same on all workers.

        Raises:
            CaptureError: The chief has traced something else.
            UsageError: The chief was given another batch.
            TimedOut: The chief does not trace this step.
        """
        coordinator = self.worker.coordinator
        if coordinator is None or self.worker.world_size == 1:
            return
        key = f"shared/{self.scope}/{_numbered(number, captured)}"
        mine = _Seen.of(captured.graph, batch)
        if self.worker.is_chief:
            coordinator.put(key, mine.to_json().encode())
            return
        try:
            content = coordinator.get(key, self.worker.environment.start_timeout_s)
        except TimedOut as error:
            raise TimedOut(
                f"worker {self.worker.rank} evaluates or predicts, but the chief does not: {error.message}",
                hint="call `evaluate` and `predict` on all workers, or `scope(evaluation='whole')`",
            ) from error
        self._check_same(mine, _Seen.from_json(content.decode()))

    @contextmanager
    def failing_together(self, captured: CapturedStep) -> Iterator[None]:
        """A context that, for a step that may be traced in another way, fails on all workers if it does on one of them.

        Raises:
            CaptureError: It has failed.
        """
        if not captured.is_tried:
            yield
            return
        reason = None
        try:
            yield
        except Exception as error:  # whatever it is, the others wait for what this worker has to say
            reason = error.message if isinstance(error, AutoDistError) else said_by(error)
        reasons = [told for told in self.told_by_all("tried", reason) if told is not None]
        if reasons:
            raise CaptureError(reasons[0])

    def told_by_all(self, about: str, own: Any) -> list[Any]:
        """Every worker's report about something, by rank, as JSON; all workers call this together."""
        coordinator = self.worker.coordinator
        if coordinator is None or self.worker.world_size == 1:
            return [own]
        key = self.next(about)
        coordinator.put(f"{key}/{self.worker.rank}", json.dumps(own).encode())
        timeout_s = self.worker.environment.start_timeout_s
        return [json.loads(coordinator.get(f"{key}/{rank}", timeout_s)) for rank in range(self.worker.world_size)]

    def next(self, about: str) -> str:
        """A key that all workers have for the same exchange, if they call this equally often."""
        return f"{about}/{self.scope}/{next(self._exchanges)}"

    def _check_same(self, mine: _Seen, chief: _Seen) -> None:
        if mine.inputs != chief.inputs:
            own, others = set(mine.inputs) - set(chief.inputs), set(chief.inputs) - set(mine.inputs)
            raise CaptureError(
                f"worker {self.worker.rank} calls the step with other arguments than the chief: "
                f"{' and '.join(sorted(own)) or 'none'} instead of {' and '.join(sorted(others)) or 'none'}",
                hint="what comes whole to every replica must be the same on all workers; what belongs to the batch has "
                "its number of rows",
            )
        difference = mine.graph.difference(chief.graph)
        if difference is not None:
            raise CaptureError(
                f"worker {self.worker.rank} traced another step than the chief: the {difference} differ",
                hint=_REMEDIES.get(difference, "every worker must run the same script with the same arguments"),
            )
        if mine.batch is not None and chief.batch is not None and chief.batch != mine.batch:
            raise self._other_batch()

    def _alone(self, number: int, error: TimedOut) -> TimedOut:
        return TimedOut(
            f"worker {self.worker.rank} has traced step function {number}, but the chief does not: {error.message}",
            hint="every worker must take the same steps on batches of the same kind, in the same order",
        )

    def _other_batch(self) -> UsageError:
        return UsageError(
            f"worker {self.worker.rank} was given another batch than the chief, but a global batch is the same on all "
            "workers",
            hint=SAME_DATA,
        )


def _numbered(number: int, captured: CapturedStep) -> str:
    """The number of a step; a step that can't be compiled as it was traced has it again when it is traced otherwise."""
    return f"{number}/tried" if captured.is_tried else str(number)


SAME_DATA = (
    "data must come in the same order on all workers: `sorted(...)` what comes from a set, `os.listdir` or `glob`, and "
    "give `shuffle` and every random generator of the input a seed, and a Python function that draws in `map` no "
    "`num_parallel_calls`; or, if each worker brings its own data, open the scope by `scope(batch='local')`"
)
"""The remedy where the workers' data differ."""

_REMEDIES = {
    "constants": "what the step takes from outside (arrays, vocabularies, class weights) must be the same on all "
    "workers: sort what comes from a set or from `os.listdir`, and give every random generator a seed"
}
"""Per kind of difference, the remedy."""


@dataclass(frozen=True)
class _Seen:
    """A worker's traced step, the arguments of the call, and a hash of the batch if that must be the same on all."""

    graph: Identity
    inputs: list[str]
    batch: int | None

    @classmethod
    def of(cls, graph: TrainingGraph, batch: int | None) -> _Seen:
        inputs = [
            f"argument {k} ({'batch' if given.split else 'whole'}: {given.dtype} {list(given.shape or ())})"
            for k, given in enumerate(graph.inputs)
        ]
        return cls(graph.identity, inputs, batch)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> _Seen:
        from autodist.graph import Identity

        row = json.loads(text)
        return cls(Identity(**row["graph"]), row["inputs"], row["batch"])


def announce(strategy: Strategy, captured: CapturedStep, worker: Worker, number: int, with_parts: Strategy) -> None:
    """Tell the user which strategy is in use, and keep it with the run.

    Args:
        strategy: This.
        captured: The step.
        worker: This process.
        number: The step's number in the scope.
        with_parts: The strategy, which also says into what other steps have cut variables that this one only reads.
    """
    if not worker.is_chief:
        return
    trainable = captured.graph.trainable
    _LOG.info(
        "step %d: strategy %s; %s, %.1f MB; %s",
        number,
        strategy.builder or strategy.id,
        _count(len(trainable), "variable"),
        sum(v.size_bytes for v in trainable) / 1e6,
        f"{_count(len(strategy.graph.replicas), 'replica')} on {_count(worker.world_size, 'worker')}"
        + (f" over {' and '.join(strategy.carriers)}" if worker.world_size > 1 else ""),
    )
    _tell_work(with_parts, captured.graph)
    if worker.environment.run_dir is not None:
        strategy_file, graph_file = step_files(worker.environment.run_dir, number)
        _keep(strategy_file, strategy.save)
        _keep_graph(captured.graph, graph_file)


def _tell_work(strategy: Strategy, graph: TrainingGraph) -> None:
    """Say which replicas have nothing to compute, and what those that have parts of variables compute whole."""
    from autodist.strategies import whole_work

    examples, replicas = graph.batch_size, len(strategy.graph.replicas)
    shares, kind = (strategy.groups_of_replicas, "groups of replicas") if strategy.has_tiles else (replicas, "replicas")
    if examples is not None and 0 < examples < shares and not graph.shares_examples:
        idle = "1 of them computes" if shares - examples == 1 else f"{shares - examples} of them compute"
        _LOG.info("the batch has %s for %d %s: %s nothing", _count(examples, "example"), shares, kind, idle)
    whole = whole_work(strategy, graph, examples) if examples and replicas > 1 else None
    if whole is not None and whole.share >= _MUCH_WHOLE:
        _LOG.info("each replica computes whole, from gathered inputs: %s", whole)


def step_files(run_dir: Path, number: int) -> tuple[Path, Path]:
    """Where a run directory has the strategy and the graph of a step function, numbered from 0."""
    suffix = f".{number}" if number else ""
    return run_dir / f"strategy{suffix}.json", run_dir / f"graph{suffix}.zip"


def keep_exchanged(exchanged: Sequence[Exchanged], worker: Worker, number: int) -> None:
    """Keep with the run what replicas of a step exchange before their gradients, for `autodist explain`."""
    from autodist.documents import whole_file  # brings YAML, which few need
    from autodist.graph.layouts import Exchanged

    def save(path: Path) -> None:
        with whole_file(path) as draft:
            Exchanged.save(exchanged, draft)

    if worker.is_chief and worker.environment.run_dir is not None:
        _keep(exchanged_file(step_files(worker.environment.run_dir, number)[1]), save)


def exchanged_file(graph_file: Path) -> Path:
    """The file that :func:`keep_exchanged` writes, next to the file of the step's graph."""
    return graph_file.with_name(graph_file.name.replace("graph", "exchanged", 1)).with_suffix(".json")


def _keep_graph(graph: TrainingGraph, path: Path) -> None:
    size = graph.graph_def.ByteSize()
    if size > _LARGEST_KEPT_BYTES:
        _LOG.info("the graph is not kept: it has %.0f MB, most of it constants of the program", size / 1e6)
        return
    _keep(path, graph.save)


def _keep(path: Path, save: Callable[[Path], None]) -> None:
    """Write a file for `autodist explain` and `search`; a full disk must not take the run with it."""
    try:
        save(path)
    except OSError as error:
        _LOG.warning("`%s` can't be written: %s", path, said_by(error))
    except GraphError as error:
        _LOG.warning("%s", error.message)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
