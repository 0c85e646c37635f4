"""``autodist timeline``: what every worker does within a step, and when."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autodist.cli.options import (
    JOB_SECTIONS,
    ClusterOptions,
    JobOptions,
    ScriptCommand,
    ScriptWords,
    check_output,
    cluster_options,
    debug_option,
    job_options,
    kept_as_run,
    new_directory,
    resolve_spec,
    script_argument,
    seconds_option,
    silent_launcher,
    written,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies import Strategy
    from autodist.tuning import TracedStep

_SCHEMA_VERSION = 1
_SECTIONS = {
    "What is traced": ("strategy", "warm-up", "iterations", "longest"),
    "What becomes of it": ("out", "json"),
    **JOB_SECTIONS,
    "Bounds": ("start-timeout", "grace"),
    "What is shown": ("debug", "help"),
}


@click.command(
    "timeline",
    cls=ScriptCommand,
    sections=_SECTIONS,
    epilog="Example: autodist timeline train.py --spec cluster.yml --strategy PSLoadBalancing",
    options_metavar="[OPTIONS]",
)
@script_argument("train.py")
@click.option("--strategy", metavar="NAME|FILE", default="auto", show_default=True, help="See `autodist strategies`.")
@click.option(
    "--warm-up", metavar="N", type=click.IntRange(0), default=5, show_default=True, help="Steps to take before timing."
)
@click.option("--iterations", metavar="N", type=click.IntRange(1), default=10, show_default=True, help="Steps to time.")
@seconds_option("--longest", 120.0, "Longest time for all steps together; then it is an error.")
@click.option("--out", metavar="FILE", help="File for the trace. Default: timeline.json in the run's directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@cluster_options
@job_options
@debug_option
def timeline(
    script: ScriptWords,
    cluster: ClusterOptions,
    options: JobOptions,
    strategy: str,
    warm_up: int,
    iterations: int,
    longest: float,
    out: str | None,
    as_json: bool,
) -> int:
    """Trace the first training step of SCRIPT on all workers: computation, transfers, collectives, waiting.

    SCRIPT is `train.py` by default. It runs up to that step, and trains nothing. The trace is for
    https://ui.perfetto.dev or chrome://tracing.
    """
    from autodist.report import SearchConsole
    from autodist.strategies import Strategy, get
    from autodist.timeline import to_chrome
    from autodist.tuning import TrialSchedule
    from autodist.tuning import timeline as run_timeline

    target = check_output(out, ".json")
    wanted = get(strategy)

    def choose(graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        return wanted if isinstance(wanted, Strategy) else wanted.build(graph, spec)

    job = options.job(script, resolve_spec(cluster))
    run_dir = job.run_dir or new_directory("timeline")
    launcher = silent_launcher(SearchConsole(), options.road(job.spec))
    with kept_as_run("timeline", job.words, run_dir, strategy):
        done = run_timeline(
            replace(job, run_dir=run_dir), launcher, choose, TrialSchedule(warm_up, iterations, longest)
        )
    path = target or run_dir / "timeline.json"
    with written(path, json.dumps(to_chrome(done.timeline))) as saved:
        _show(done, strategy, saved, as_json)
    return 0


def _show(done: TracedStep, strategy: str, saved: Path | None, as_json: bool) -> None:
    from autodist.report import output_console, show_timeline
    from autodist.timeline import summarize

    workers = summarize(done.timeline)
    # The builder of a file's strategy says what found it; people know it by the file's name.
    name = done.strategy.builder if done.strategy.builder.startswith("auto") else strategy
    if as_json:
        rows = [asdict(worker) for worker in workers]
        content = {"schema_version": _SCHEMA_VERSION, "strategy": name, "step_s": done.step_s}
        click.echo(json.dumps(content | {"workers": rows, "saved": saved and str(saved)}, indent=2))
        return
    show_timeline(workers, done.step_s)
    console = output_console()
    console.print(f"strategy: {name}", soft_wrap=True)
    if saved is not None:
        console.print(f"saved {saved}: open it in https://ui.perfetto.dev", soft_wrap=True)
