"""``autodist search``: measures strategies on the cluster, and keeps the fastest."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from autodist.cli._batch_sizes import (
    batch_option,
    by_batch,
    fastest_batch,
)
from autodist.cli._found_strategy import show_found
from autodist.cli._plan_options import PLAN_OPTIONS, plan_options
from autodist.cli._search_watcher import Watcher, next_command
from autodist.cli._trials_command import store_option
from autodist.cli.options import (
    JOB_SECTIONS,
    ClusterOptions,
    JobOptions,
    NamesOption,
    Number,
    ScriptCommand,
    ScriptWords,
    bill_for,
    check_output,
    cluster_options,
    debug_option,
    examples_option,
    job_options,
    kept_as_run,
    new_directory,
    resolve_spec,
    run_meant,
    script_argument,
    seconds_option,
    silent_launcher,
    utility_option,
    written,
)
from autodist.errors import AutoDistError, SearchFailed, UsageError
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.launch import Job
    from autodist.tuning import SearchRequest, SearchResult

_SECTIONS = {
    "How much": ("trials", "budget", "simulate-only", "proposals"),
    "How a trial goes": ("warm-up", "iterations", "enough", "hopeless", "finalists", "rounds", "trial-timeout"),
    "Where": ("searcher", "simulator", "no-profile", "fix", "exclude", "allow", "also", "batch"),
    "How candidates are chosen": PLAN_OPTIONS,
    "What becomes of it": ("utility", "examples", "store", "resume", "continue", "out", "json"),
    **JOB_SECTIONS,
    "Bounds": ("start-timeout", "grace"),
    "What is shown": ("debug", "help"),
}


_REFERENCE = 10
"""After this many trials the first one is measured again."""
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A time like ``90s``, ``30m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value).strip())
        if found is None or float(found[1]) <= 0:
            self.fail(f"`{value}` is not a time, write it like `90s`, `30m` or `2h`", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def _searchers() -> list[str]:
    from autodist.search import SEARCHERS

    return [searcher.name for searcher in SEARCHERS]


@click.command(
    "search",
    cls=ScriptCommand,
    sections=_SECTIONS,
    epilog="Example: autodist search train.py --spec cluster.yml --trials 200",
    options_metavar="[OPTIONS]",
)
@script_argument("train.py")
@click.option(
    "--trials",
    metavar="N",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Number of strategies to measure at most.",
)
@click.option("--budget", metavar="TIME", type=_DurationType(), help="Begin no trial after this time: 90s, 30m, 2h.")
@click.option("--simulate-only", is_flag=True, help="Measure nothing: a simulator alone ranks the strategies, here.")
@click.option(
    "--proposals",
    metavar="N",
    type=int,
    help="With --simulate-only: number of strategies to score at most. Default: 30000, in 5 s.",
)
@click.option(
    "--warm-up",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Steps to take before measuring.",
)
@click.option(
    "--iterations", metavar="N", type=click.IntRange(1), default=40, show_default=True, help="Steps to measure."
)
@click.option(
    "--enough",
    metavar="TIME",
    type=_DurationType(),
    help="Stop measuring a strategy after this time, like 10s, but after 3 steps at the earliest. Default: no limit.",
)
@click.option(
    "--hopeless",
    metavar="TIMES",
    type=Number(1),
    default=1.5,
    show_default=True,
    help="Give a strategy up that surely takes this many times as long as the best.",
)
@click.option(
    "--finalists",
    metavar="N",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Number of best strategies to measure again at the end, in turn with the best well-known one.",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of times to measure each strategy, in turn with all others: for trials to learn from.",
)
@seconds_option("--trial-timeout", 120.0, "Longest time of a trial; a longer one counts as failed.")
@click.option(
    "--searcher",
    cls=NamesOption,
    names=_searchers,
    default="random",
    show_default=True,
    help="How to propose strategies: {}.",
)
@click.option(
    "--simulator",
    default="events",
    show_default=True,
    help="How to choose what to measure: events, forest, ... or a file; docs/simulators.md.",
)
@click.option("--no-profile", is_flag=True, help="Estimate what the step computes instead of measuring it.")
@click.option("--fix", metavar="VARS=CHOICE", multiple=True, help="Fix a choice, like `embedding*=ps`. Repeatable.")
@click.option(
    "--exclude", metavar="[VARS=]CHOICE", multiple=True, help="Forbid a choice, like `partition`. Repeatable."
)
@click.option(
    "--allow",
    metavar="ASPECT",
    multiple=True,
    help="Also search `mixed` shards, `compressor`, or `staleness`, which simulators can't judge. Repeatable.",
)
@click.option(
    "--also",
    metavar="STRATEGY",
    multiple=True,
    help="Also measure this strategy: like `AllReduce(chunk_size=16)`, or a file. Repeatable.",
)
@batch_option
@plan_options
@utility_option
@examples_option
@store_option
@click.option("--resume", is_flag=True, help="Continue the last search of this graph on this cluster.")
@click.option("--continue", "goes_on", is_flag=True, help="The same if there is one, else begin one.")
@click.option("--out", metavar="FILE", help="File for the best strategy. Default: best.json in the run's directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@cluster_options
@job_options
@debug_option
def search(
    script: ScriptWords,
    cluster: ClusterOptions,
    options: JobOptions,
    out: str | None,
    as_json: bool,
    simulate_only: bool,
    proposals: int | None,
    examples: int | None,
    batches: tuple[int, ...],
    **settings: Any,
) -> int:
    """Find the fastest strategy for the first training step of SCRIPT, by measuring some on the cluster.

    SCRIPT is `train.py` by default. It runs up to that step, and trains nothing. With --simulate-only it may also be a
    graph that a run has kept, or the run's directory.
    """
    from autodist.cli._simulate_only import OfflineCommand

    target = check_output(out, ".json")
    scripts = by_batch(script, batches)
    if simulate_only and not script.is_module:
        script = replace(script, text=run_meant(script.text))
    offline = OfflineCommand(script, cluster, options, proposals, examples, target, as_json)
    if offline.is_meant(simulate_only):
        return offline.run(_request(options.seed or 0, **settings))
    check_output(settings["store"], None, "--store")
    _check_resumption(settings["resume"], settings["goes_on"], Path(settings["store"]))
    job = options.job(scripts[0], resolve_spec(cluster))
    run_dir = job.run_dir or new_directory("search")
    request = _request(options.seed or 0, **settings)
    budget_s = None if request.budget.time_s is None else request.budget.time_s / len(scripts)
    request = replace(request, budget=replace(request.budget, time_s=budget_s))

    def searched(script: ScriptWords) -> SearchResult:
        place = run_dir if len(scripts) == 1 else run_dir / f"search-{scripts.index(script)}"
        return _searched(request, replace(job, run_dir=place, script_args=script.args), script, cluster, options)

    found = fastest_batch(scripts, searched)
    best = found[0]
    path = target or run_dir / "best.json"
    bill = bill_for(job.spec, best.result.batch_size, examples)
    with written(path, best.result.best.strategy.to_json(), _kept_in(request.store, best.result.study)) as saved:
        show_found(found, bill, request.store, saved, as_json, next_command(best.script, cluster, path))
    return 0


def _searched(
    request: SearchRequest, job: Job, script: ScriptWords, cluster: ClusterOptions, options: JobOptions
) -> SearchResult:
    """Search, and report progress."""
    from autodist.tuning import search as run_search

    watcher = Watcher(request)
    launcher = silent_launcher(watcher.console, options.road(job.spec))
    assert job.run_dir is not None
    try:
        with kept_as_run("search", job.words, job.run_dir):
            return run_search(request, job, launcher, watcher)
    except AutoDistError as error:
        if isinstance(error, SearchFailed) and error.trial is not None:
            again = partial(next_command, script, cluster, seed=job.seed)
            error.hint = _repetition(error.trial, error.study, request.store, again)
        elif watcher.trials:
            are = "is" if len(watcher.trials) == 1 else "are"
            kept = f"{counted(len(watcher.trials), 'trial')} {are} in"
            way_on = f"{kept} `{request.store}`; `--resume` goes on from there"
            error.hint = way_on if error.hint is None else f"{error.hint}; then: {way_on}"
        raise
    finally:
        watcher.console.close()


def _request(
    seed: int,
    *,
    trials: int,
    budget: float | None,
    warm_up: int,
    iterations: int,
    enough: float | None,
    hopeless: float,
    finalists: int,
    rounds: int,
    trial_timeout: float,
    searcher: str,
    simulator: str,
    no_profile: bool,
    fix: tuple[str, ...],
    exclude: tuple[str, ...],
    allow: tuple[str, ...],
    also: tuple[str, ...],
    scored: int,
    qualified: int,
    at_once: int,
    alpha: float,
    similarity: Literal["choices", "features"],
    no_constraints: bool,
    utility: str,
    store: str,
    resume: bool,
    goes_on: bool,
) -> SearchRequest:
    from autodist.search import Rule, SearchBudget, SearchPlan
    from autodist.simulator import ProfileCache
    from autodist.tuning import SearchRequest, TrialSchedule

    plan = SearchPlan(scored, qualified, at_once, alpha, hopeless, similarity=similarity)
    return SearchRequest(
        Path(store),
        SearchBudget(trials, budget),
        TrialSchedule(warm_up, iterations, trial_timeout, math.inf if enough is None else enough),
        replace(plan, finalists=finalists, rounds=rounds, reference=_REFERENCE),
        searcher=searcher,
        simulator=simulator,
        rules=Rule.all_of(fix, exclude),
        also=also,
        allowed=allow,
        resumes=resume,
        may_resume=goes_on,
        seed=seed,
        profiles=None if no_profile else ProfileCache.of_user(),
        utility=utility,
        is_guided=not no_constraints,
    )


def _check_resumption(resume: bool, goes_on: bool, store: Path) -> None:
    """Refuse what can't be resumed before anything is measured."""
    if resume and goes_on:
        raise UsageError(
            "`--resume` and `--continue` mean nothing together",
            hint="give `--continue`, which begins a search if there is none, or `--resume`, which then refuses",
        )
    if resume and not store.exists():
        raise UsageError(
            f"there is no store `{store}`, so no search to resume",
            hint="give `--continue` instead of `--resume`, or name the store by `--store`",
        )


def _repetition(trial: int, study: int | None, store: Path, again: Callable[[Path], str]) -> str:
    """Return the command that repeats a failed trial alone, with all that the workers have to say."""
    path = Path(f"trial_{trial}.json")
    save = ["autodist", "best", "--trial", str(trial), "--study", str(study), "--store", str(store), "--out", str(path)]
    return f"repeat it with all that the workers say:\n{shlex.join(save)}\n{again(path)}"


def _kept_in(store: Path, study: int) -> str:
    best = shlex.join(["autodist", "best", "--study", str(study), "--store", str(store), "--out"])
    return f"the search is kept: `{best} FILE` writes its best strategy elsewhere"
