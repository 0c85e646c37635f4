"""``autodist simulator``: how well simulators rank, and files of what they have learned."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from autodist.cli._help import WholeGroup
from autodist.cli._trials_command import open_store, store_option, the_study
from autodist.cli.options import Number, check_output, debug_option, make_directory_of
from autodist.errors import SimulatorError, UsageError
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.search import Comparison, DataSet

_SCHEMA_VERSION = 1
_DEFAULT = ("analytic", "events", "linear", "rnn", "gat", "forest", "ensemble")
_FEWEST = 10
_FEWEST_SEEN = 2


@click.group("simulator", cls=WholeGroup)
def simulator() -> None:
    """Judge the simulators that a search chooses by, and keep what they have learned."""


@simulator.command("eval", epilog="Example: autodist simulator eval --simulator events --simulator forest")
@store_option
@click.option(
    "--simulator",
    "names",
    metavar="NAME",
    multiple=True,
    help="Simulator to judge. Repeatable. Default: all but ablations.",
)
@click.option(
    "--split", "splits", metavar="KIND", multiple=True, help="What to hold out: trials, cluster, graph. Repeatable."
)
@click.option(
    "--from",
    "sources",
    metavar="A",
    multiple=True,
    help="What to learn from: a study's number, a store, or a file of studies. Repeatable; with --to.",
)
@click.option("--to", "targets", metavar="B", multiple=True, help="What to rank after that, said likewise. Repeatable.")
@click.option("--folds", metavar="N", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the folds.")
@click.option(
    "--gap",
    metavar="SHARE",
    type=Number(0),
    default=0.0,
    help="Leave out pairs that are closer than this, like 0.03.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def evaluate(
    store: str,
    names: tuple[str, ...],
    splits: tuple[str, ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    folds: int,
    seed: int,
    gap: float,
    as_json: bool,
) -> None:
    """Say how well simulators rank measured strategies that they have not seen.

    Some of the trials are held out (by turns), or all of a cluster, or all of a graph. With --from and --to, trials of
    some searches are learned from, and those of others ranked.
    """
    from autodist.report import LiveLine
    from autodist.search import CONTESTANTS, SPLITS, compare, compare_given, count_of_comparisons

    chosen = names or _DEFAULT
    _check_all({"simulator": (chosen, list(CONTESTANTS)), "split": (splits, list(SPLITS))})
    if sources or targets:
        _check_transfer(sources, targets, splits)
        seen, ranked = _given(store, sources, _FEWEST_SEEN), _given(store, targets, _FEWEST)
        _tell(list(compare_given(seen, ranked, chosen, least_gap=gap)), folds, gap, as_json)
        return
    sets = _sets(store, max(_FEWEST, 2 * folds))
    found: list[Comparison] = []
    kinds = [kind for kind in SPLITS if kind in (splits or SPLITS)]
    with LiveLine() as line:
        advance = line.count("judged", len(chosen) * count_of_comparisons(sets, kinds))
        for one in compare(sets, chosen, kinds, folds=folds, seed=seed, least_gap=gap):
            found.append(one)
            advance()
    missing = [f"one {kind} only" for kind in kinds if not any(one.split == kind for one in found)]
    told = f"`{store}` has trials of {' and of '.join(missing)}: no simulator can be judged on an unseen one"
    if not found:
        raise SimulatorError(told, hint="take in those of others by `autodist trials --import FILE`")
    if missing and splits:
        sys.stderr.write(f"autodist: {told}\n")
    _tell(found, folds, gap, as_json)


def _tell(found: Sequence[Comparison], folds: int, gap: float, as_json: bool) -> None:
    if as_json:
        rows = [_row(comparison) for comparison in found]
        click.echo(json.dumps({"schema_version": _SCHEMA_VERSION, "folds": folds, "gap": gap, "rows": rows}, indent=2))
    else:
        _show(found)


@simulator.command("fit", epilog="Example: autodist simulator fit --simulator forest --out forest.npz")
@store_option
@click.option(
    "--simulator",
    "name",
    metavar="NAME",
    default="forest",
    show_default=True,
    help="linear, rnn, gat, forest, ensemble.",
)
@click.option("--from", "source", metavar="FILE", help="Go on from what is in this file.")
@click.option("--out", metavar="FILE", default="simulator.npz", show_default=True, help="File to write.")
@debug_option
def fit(store: str, name: str, source: str | None, out: str) -> None:
    """Learn from all trials of a store, for `autodist search --simulator FILE`."""
    from autodist.simulator import LEARNED, load_simulator, save_simulator

    _check_all({"simulator that learns": ([name], list(LEARNED))})
    target = check_output(out, ".npz")
    made = LEARNED[name]() if source is None else load_simulator(source)
    if made.name != name and click.get_current_context().get_parameter_source("name") is ParameterSource.COMMANDLINE:
        raise UsageError(f"`{source}` is a simulator `{made.name}`, not `{name}`", hint="leave out `--simulator`")
    sets = _sets(store, 2)
    made.fit([data.measured for data in sets])
    assert target is not None, "it has a default"
    make_directory_of(target)
    save_simulator(made, target)
    trials = sum(len(data.measured) for data in sets)
    graphs, clusters = len({data.graph for data in sets}), len({data.spec for data in sets})
    learned = f"{counted(trials, 'strategy', 'strategies')} of {counted(graphs, 'graph')}"
    sys.stderr.write(f"{made.name}: learned from {learned} on {counted(clusters, 'cluster')}\n")
    click.echo(f"saved {out}")


def _check_transfer(sources: Sequence[str], targets: Sequence[str], splits: Sequence[str]) -> None:
    if splits:
        raise UsageError("`--split` says what is held out, and so do `--from` and `--to`", hint="leave one of them out")
    if not (sources and targets):
        given, missing = ("--from", "--to") if sources else ("--to", "--from")
        raise UsageError(f"`{given}` needs `{missing}`: what is learned from, and what is ranked after that")
    if both := sorted({*sources} & {*targets}):
        raise UsageError(f"`{both[0]}` is both learned from and ranked", hint="give others to one of them")


def _given(store: str, texts: Sequence[str], fewest: int) -> list[DataSet]:
    """The trials that numbers of studies of the store, and names of files, stand for."""
    from autodist.search import TrialStore, data_sets, import_studies

    found: list[DataSet] = []
    numbers = [int(text) for text in texts if text.isdigit()]
    if numbers:
        with open_store(store) as opened:
            found += data_sets(opened, [the_study(opened, number) for number in numbers])
    files = [text for text in texts if not text.isdigit()]
    if files:
        with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as opened:
            import_studies(opened, *files)
            found += data_sets(opened)
    enough = [data for data in found if len(data.measured) >= fewest]
    if not enough:
        raise SimulatorError(f"{', '.join(texts)}: no graph on a cluster of which {fewest} strategies are measured")
    return enough


def _check_all(given: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> None:
    """Refuse a value that is not allowed; all mistakes at once."""
    mistakes = []
    for what, (names, allowed) in given.items():
        unknown = [f"`{name}`" for name in names if name not in allowed]
        mistakes += [f"there is no {what} {', '.join(unknown)}, allowed: {', '.join(allowed)}"] if unknown else []
    if mistakes:
        raise UsageError("\n".join(mistakes))


def _sets(store: str, fewest: int) -> list[DataSet]:
    from autodist.search import data_sets

    with open_store(store) as opened:
        sets = [data for data in data_sets(opened) if len(data.measured) >= fewest]
    if not sets:
        raise SimulatorError(
            f"`{store}` has no graph on a cluster of which {fewest} strategies are measured",
            hint="measure more by `autodist search`, or take in those of others by `autodist trials --import FILE`",
        )
    return sets


def _row(comparison: Comparison) -> dict[str, object]:
    data = comparison.data
    about = {"simulator": comparison.simulator, "split": comparison.split, "label": data.label, "graph": data.graph}
    return {
        **about,
        "cluster": data.cluster,
        "trials": len(data.measured),
        "repeats": _finite(data.repeats),
        **{name: _finite(value) for name, value in asdict(comparison.accuracy).items()},
        **({} if _is_time(comparison) else {"error": None}),
    }


def _finite(value: float) -> float | None:
    """The value, or None for NaN, which JSON lacks: no pair of strategies is left to compare then."""
    return value if math.isfinite(value) else None


def _figure(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if math.isfinite(value) else "-"


def _show(found: Sequence[Comparison]) -> None:
    from autodist.report import fitted_table, table_console

    console = table_console()
    said = {"trials": "trials held out", "cluster": "an unseen cluster", "graph": "an unseen graph"}
    said["given"] = "after what was given"
    for split in dict.fromkeys(comparison.split for comparison in found):
        rows = [comparison for comparison in found if comparison.split == split]
        columns = {
            "Graph": [row.data.label for row in rows],
            "Cluster": [row.data.cluster for row in rows],
            "Trials": [str(len(row.data.measured)) for row in rows],
            "Simulator": [row.simulator for row in rows],
            "Pairs right": [_figure(row.accuracy.pairwise, ".3f") for row in rows],
            "Kendall": [_figure(row.accuracy.kendall_tau, ".2f") for row in rows],
            "Regret": [_figure(100 * row.accuracy.regret, ".0f", " %") for row in rows],
            "Error": [_error(row) for row in rows],
            "In interval": [_figure(100 * row.accuracy.covered, ".0f", " %") for row in rows],
        }
        for title, entry in (*_summary(rows).items(), *(_repetition(rows).items() if split == "trials" else ())):
            columns[title] += entry
        if not any(math.isfinite(row.accuracy.covered) for row in rows):
            del columns["In interval"]
        console.print(f"\n{said[split]}")
        right = ("Trials", "Pairs right", "Kendall", "Regret", "Error", "In interval")
        console.print(fitted_table(columns, console.width, right=right, shrink={"Graph": 12, "Cluster": 12}))


def _error(comparison: Comparison) -> str:
    """Relative error of a simulator whose scores are seconds; a dash for others."""
    return _figure(100 * comparison.accuracy.error, ".0f", " %") if _is_time(comparison) else "-"


def _is_time(comparison: Comparison) -> bool:
    return comparison.simulator.partition(":")[0] in ("analytic", "events", "forest", "ensemble")


def _repetition(rows: Sequence[Comparison]) -> dict[str, list[str]]:
    """A line for each set: how well the even steps of its measurements tell the order of the odd ones."""
    sets = list({id(row.data): row.data for row in rows}.values())
    nothing = [""] * len(sets)
    return {
        "Graph": [data.label for data in sets],
        "Cluster": [data.cluster for data in sets],
        "Trials": [str(len(data.measured)) for data in sets],
        "Simulator": ["(even steps)"] * len(sets),
        "Pairs right": [_figure(data.repeats, ".3f") for data in sets],
        **dict.fromkeys(("Kendall", "Regret", "Error", "In interval"), nothing),
    }


def _mean_of(values: Sequence[float]) -> float:
    """The mean of those that are known."""
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def _summary(rows: Sequence[Comparison]) -> dict[str, list[str]]:
    """A line for each simulator: its mean over the sets, and the worst."""
    names = list(dict.fromkeys(row.simulator for row in rows))
    columns: dict[str, list[str]] = {}
    for name in names:
        own = [row.accuracy for row in rows if row.simulator == name]
        pairs = [accuracy.pairwise for accuracy in own if math.isfinite(accuracy.pairwise)] or [math.nan]
        line = {
            "Graph": "mean",
            "Cluster": f"lowest {_figure(min(pairs), '.3f')}",
            "Trials": "",
            "Simulator": name,
            "Pairs right": _figure(sum(pairs) / len(pairs), ".3f"),
            "Kendall": _figure(sum(a.kendall_tau for a in own) / len(own), ".2f"),
            "Regret": _figure(100 * sum(a.regret for a in own) / len(own), ".0f", " %"),
            "Error": "",
            "In interval": _figure(100 * _mean_of([a.covered for a in own]), ".0f", " %"),
        }
        for title, text in line.items():
            columns.setdefault(title, []).append(text)
    return columns
