"""Which strategy, graph and cluster a command is about: files, run directories and builders' names."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.cli.options._cluster_options import ClusterOptions, cluster_options, load_spec, resolve_spec
from autodist.errors import GraphError, StrategyError, UsageError

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.graph.layouts import Exchanged
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies import Strategy, StrategyBuilder


@dataclass(frozen=True)
class Subject:
    """The graph, cluster and strategy that a command is about.

    Attributes:
        strategies: One per text that was given.
        graph: G, if there is one.
        spec: D, if there is a graph.
        batch_size: Examples in a global batch; None for the run's.
        rows: By variable, the rows that a global batch touches.
        exchanged: What replicas exchange before their gradients, as the run has kept it; None without such a run.
    """

    strategies: tuple[Strategy, ...]
    graph: TrainingGraph | None
    spec: ResourceSpec | None
    batch_size: int | None
    rows: Mapping[str, int]
    exchanged: tuple[Exchanged, ...] | None = None


@dataclass(frozen=True)
class SubjectOptions:
    """The options of :func:`subject_options`, as given; a command takes them as ``options``."""

    graph: str | None
    cluster: ClusterOptions
    step: int
    batch_size: int | None
    rows: tuple[str, ...]


def subject_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add what says which graph and cluster are meant, and how large the batch is."""

    @functools.wraps(command)
    def gathered(**given: Any) -> int:
        names = [field.name for field in fields(SubjectOptions)]
        return command(options=SubjectOptions(**{name: given.pop(name) for name in names}), **given)

    options = (
        click.option(
            "--rows", multiple=True, metavar="VARIABLE=N", help="Rows that a global batch touches in a table."
        ),
        click.option(
            "--batch-size", type=click.IntRange(min=1), help="Examples in a global batch. Default: the run's."
        ),
        click.option("--step", type=click.IntRange(min=0), default=0, help="Which step function of a run directory."),
        cluster_options,
        click.option("--graph", metavar="FILE|RUN", help="A graph that a run has kept, or its run directory."),
    )
    decorated: Callable[..., int] = gathered
    for option in options:
        decorated = option(decorated)
    return decorated


def find_subject(texts: Sequence[str], options: SubjectOptions) -> Subject:
    """Find the strategies, the graph and the cluster that are meant.

    Args:
        texts: Strategies: a JSON file, a run directory, a builder's name, or a plan.
        options: The graph, by default that of the first run directory among the texts; the cluster, by default that of
            the same run; which step function of a run directory; the batch.

    Raises:
        StrategyError: No such strategy, or a builder without a graph.
        GraphError: The graph can't be read.
        SpecError: The cluster can't be read.
        UsageError: A cluster without a graph, or rows of no such variable.
    """
    texts = [run_meant(text) for text in texts]
    graph_file = _graph_file(texts, options.graph and run_meant(options.graph), options.step)
    found_graph = None if graph_file is None else _load_graph(graph_file)
    if found_graph is not None and options.batch_size is not None:
        found_graph = replace(found_graph, batch_size=options.batch_size)  # builders go by it as well
    found_spec = None
    is_spec_given = bool(options.cluster.given)
    if is_spec_given and found_graph is None:
        raise UsageError(
            "a cluster was given but no graph, what a strategy costs depends on both",
            hint="give `--graph` a graph that a run has kept, such as `--graph runs/latest`",
        )
    if graph_file is not None:
        beside = graph_file.with_name("spec.json")
        kept = beside.is_file() and not is_spec_given
        found_spec = load_spec(beside) if kept else resolve_spec(options.cluster)
    strategies = tuple(_strategy(text, found_graph, found_spec, options.step) for text in texts)
    exchanged = None if graph_file is None else _exchanged(graph_file)
    rows = _rows(options.rows, found_graph)
    return Subject(strategies, found_graph, found_spec, options.batch_size, rows, exchanged)


def run_meant(text: str) -> str:
    """Return the directory of a run that is named as in `autodist status`; any other text unchanged."""
    from autodist.launch import find_run
    from autodist.strategies import names_builder

    if Path(text).exists() or names_builder(text):
        return text
    try:
        return str(find_run(text))
    except UsageError:
        if text == "latest":
            raise
        return text


def _exchanged(graph_file: Path) -> tuple[Exchanged, ...] | None:
    from autodist.coordination import exchanged_file
    from autodist.graph.layouts import Exchanged

    kept = exchanged_file(graph_file)
    if not kept.is_file():
        return None
    try:
        return Exchanged.load(kept)
    except ValueError as error:
        raise GraphError(
            f"what replicas exchange within a step can't be read: {error}",
            hint="delete that file, and `autodist explain` shows the rest",
        ) from error


def _rows(texts: Sequence[str], graph: TrainingGraph | None) -> dict[str, int]:
    """Numbers of rows by variable, from ``table=4096``.

    Raises:
        UsageError: Something else, or no such variable; all mistakes are listed.
    """
    found: dict[str, int] = {}
    mistakes = []
    known = [v.name for v in graph.trainable if v.is_sparse] if graph is not None else []
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not re.fullmatch("[0-9]{1,15}", number):
            mistakes.append(f"`--rows {text}`, write it like `--rows table=4096`")
        elif name not in known:
            tables = ", ".join(f"`{table}`" for table in known[:8]) or "none"
            mistakes.append(f"`--rows {text}`: the graph has no sparse variable `{name}`; it has {tables}")
        else:
            found[name] = int(number)
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return found


def _graph_file(texts: Sequence[str], graph: str | None, step: int) -> Path | None:
    if graph is not None:
        return _files(graph, step)[1] if Path(graph).is_dir() else Path(graph)
    for text in texts:
        beside = _files(text, step)[1] if Path(text).is_dir() else _beside(Path(text))
        if beside is not None and beside.is_file():
            return beside
    return None


def _beside(path: Path) -> Path | None:
    """The graph of a run's strategy file."""
    match = re.fullmatch(r"strategy(\.[0-9]+)?\.json", path.name)
    return path.with_name(f"graph{match[1] or ''}.zip") if match and path.is_file() else None


def _files(directory: str, step: int) -> tuple[Path, Path]:
    from autodist.coordination import step_files

    return step_files(Path(directory), step)


def _load_graph(path: Path) -> TrainingGraph:
    from autodist.graph import TrainingGraph

    return TrainingGraph.load(path)


def _strategy(text: str, graph: TrainingGraph | None, spec: ResourceSpec | None, step: int) -> Strategy:
    from autodist import strategies

    if Path(text).is_dir():
        return _of_run(text, step)
    # A name is a builder's, a YAML file is a plan; any other file, whatever it is called, is a strategy.
    is_builder = strategies.names_builder(text) or Path(text).suffix in (".yml", ".yaml")
    found = strategies.Strategy.load(text) if Path(text).is_file() and not is_builder else strategies.get(text)
    if isinstance(found, strategies.Strategy):
        return found if graph is None or spec is None else _fitted(found, text, graph, spec)
    return _built(found, text, graph, spec)


def _fitted(found: Strategy, text: str, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
    """A file's strategy as a run on this cluster would use it, with a warning if it is of another one."""
    from autodist import strategies
    from autodist.report import show_warning

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", strategies.RetargetedWarning)
        fits = strategies.fitting(found, spec, path=text)
        strategy = fits if isinstance(fits, strategies.Strategy) else fits.build(graph, spec)
    for warning in told:
        show_warning(str(warning.message))
    return strategy


def _built(builder: StrategyBuilder, text: str, graph: TrainingGraph | None, spec: ResourceSpec | None) -> Strategy:
    if graph is None or spec is None:
        raise StrategyError(
            f"`{text}` is a builder, what it does depends on a graph and a cluster",
            hint="give `--graph` a graph that a run has kept, such as `--graph runs/latest`; or name a strategy's file",
        )
    return builder.build(graph, spec)


def _of_run(directory: str, step: int) -> Strategy:
    from autodist.strategies import Strategy

    path = _files(directory, step)[0]
    if not path.is_file():
        others = sorted(p.name for p in Path(directory).glob("strategy*.json"))
        has = f"it has {', '.join(f'`{name}`' for name in others)}" if others else "is it a run directory?"
        raise StrategyError(f"the directory `{directory}` has no `{path.name}`; {has}")
    return Strategy.load(path)
