"""``autodist simulator``: how well simulators rank, and files of what they have learned."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from autodist.cli._options import debug_option
from autodist.cli._trials import open_store, store_option
from autodist.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from autodist.search import Comparison, DataSet

__all__ = ["simulator"]

_SCHEMA_VERSION = 1
_DEFAULT = ("analytic", "events", "linear", "rnn", "gat", "forest")
_FEWEST = 10


@click.group("simulator")
def simulator() -> None:
    """Judge the simulators that a search chooses by, and keep what they have learned."""


@simulator.command("eval", epilog="Example: autodist simulator eval --simulator events --simulator forest")
@store_option
@click.option("--simulator", "names", metavar="NAME", multiple=True, help="Repeatable. Default: all but ablations.")
@click.option("--split", "splits", metavar="KIND", multiple=True, help="trials, cluster, graph. Repeatable.")
@click.option("--folds", metavar="N", type=click.IntRange(2), default=5, show_default=True, help="Of the trials.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the cut into folds.")
@click.option(
    "--gap", metavar="SHARE", type=click.FloatRange(0), default=0.0, help="Leave out closer pairs, like 0.03."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def evaluate(
    store: str, names: tuple[str, ...], splits: tuple[str, ...], folds: int, seed: int, gap: float, as_json: bool
) -> None:
    """Say how well simulators rank measured strategies that they have not seen.

    Some of the trials are held out (by turns), or all of a cluster, or all of a graph.
    """
    from autodist.report import LiveLine
    from autodist.search import CONTESTANTS, SPLITS, compare

    chosen = names or _DEFAULT
    _check(chosen, list(CONTESTANTS), "simulator")
    _check(splits, list(SPLITS), "split")
    sets = _sets(store, max(_FEWEST, 2 * folds))
    found: list[Comparison] = []
    kinds = [kind for kind in SPLITS if kind in (splits or SPLITS)]
    with LiveLine() as line:
        advance = line.count("judged", len(sets) * len(chosen) * len(kinds))
        for one in compare(sets, chosen, kinds, folds=folds, seed=seed, least_gap=gap):
            found.append(one)
            advance()
    if as_json:
        rows = [_row(comparison) for comparison in found]
        click.echo(json.dumps({"schema_version": _SCHEMA_VERSION, "folds": folds, "gap": gap, "rows": rows}, indent=2))
    else:
        _show(found)


@simulator.command("fit", epilog="Example: autodist simulator fit --simulator forest --out forest.npz")
@store_option
@click.option(
    "--simulator", "name", metavar="NAME", default="forest", show_default=True, help="linear, rnn, gat, forest."
)
@click.option("--from", "source", metavar="FILE", help="Go on from what is in this file.")
@click.option("--out", metavar="FILE", default="simulator.npz", show_default=True, help="Where to.")
@debug_option
def fit(store: str, name: str, source: str | None, out: str) -> None:
    """Learn from all trials of a store, for `autodist search --simulator FILE`."""
    from autodist.simulator import LEARNED, load_simulator, save_simulator

    _check([name], list(LEARNED), "simulator that learns")
    sets = _sets(store, 2)
    made = LEARNED[name]() if source is None else load_simulator(source)
    made.fit([data.measured for data in sets])
    save_simulator(made, out)
    trials = sum(len(data.measured) for data in sets)
    sys.stderr.write(f"{made.name}: learned from {trials} strategies of {len(sets)} graphs on clusters\n")
    click.echo(f"saved {out}")


def _check(given: Sequence[str], allowed: Sequence[str], what: str) -> None:
    unknown = [name for name in given if name not in allowed]
    if unknown:
        raise UsageError(f"there is no {what} {', '.join(f'`{n}`' for n in unknown)}, allowed: {', '.join(allowed)}")


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
        "repeats": data.repeats,
        **asdict(comparison.accuracy),
    }


def _show(found: Sequence[Comparison]) -> None:
    from autodist.report import fitted_table, table_console

    console = table_console()
    said = {"trials": "trials held out", "cluster": "an unseen cluster", "graph": "an unseen graph"}
    for split in dict.fromkeys(comparison.split for comparison in found):
        rows = [comparison for comparison in found if comparison.split == split]
        columns = {
            "Graph": [row.data.label for row in rows],
            "Cluster": [row.data.cluster for row in rows],
            "Trials": [str(len(row.data.measured)) for row in rows],
            "Simulator": [row.simulator for row in rows],
            "Pairs right": [f"{row.accuracy.pairwise:.3f}" for row in rows],
            "Kendall": [f"{row.accuracy.kendall_tau:.2f}" for row in rows],
            "Regret": [f"{100 * row.accuracy.regret:.0f} %" for row in rows],
            "Error": [_error(row) for row in rows],
        }
        for title, entry in (*_summary(rows).items(), *(_repetition(rows).items() if split == "trials" else ())):
            columns[title] += entry
        console.print(f"\n{said[split]}")
        right = ("Trials", "Pairs right", "Kendall", "Regret", "Error")
        console.print(fitted_table(columns, console.width, right=right, shrink={"Graph": 12, "Cluster": 12}))


def _error(comparison: Comparison) -> str:
    """Relative error, of those whose scores are seconds."""
    is_time = comparison.simulator.partition(":")[0] in ("analytic", "events", "forest")
    return f"{100 * comparison.accuracy.error:.0f} %" if is_time else "-"


def _repetition(rows: Sequence[Comparison]) -> dict[str, list[str]]:
    """A line for each set: how well the even steps of its measurements tell the order of the odd ones."""
    sets = list({id(row.data): row.data for row in rows}.values())
    nothing = [""] * len(sets)
    return {
        "Graph": [data.label for data in sets],
        "Cluster": [data.cluster for data in sets],
        "Trials": [str(len(data.measured)) for data in sets],
        "Simulator": ["(even steps)"] * len(sets),
        "Pairs right": [f"{data.repeats:.3f}" for data in sets],
        **dict.fromkeys(("Kendall", "Regret", "Error"), nothing),
    }


def _summary(rows: Sequence[Comparison]) -> dict[str, list[str]]:
    """A line for each simulator: its mean over the sets, and the worst."""
    names = list(dict.fromkeys(row.simulator for row in rows))
    columns: dict[str, list[str]] = {}
    for name in names:
        own = [row.accuracy for row in rows if row.simulator == name]
        pairs = [accuracy.pairwise for accuracy in own]
        line = {
            "Graph": "mean",
            "Cluster": f"lowest {min(pairs):.3f}",
            "Trials": "",
            "Simulator": name,
            "Pairs right": f"{sum(pairs) / len(own):.3f}",
            "Kendall": f"{sum(a.kendall_tau for a in own) / len(own):.2f}",
            "Regret": f"{100 * sum(a.regret for a in own) / len(own):.0f} %",
            "Error": "",
        }
        for title, text in line.items():
            columns.setdefault(title, []).append(text)
    return columns
