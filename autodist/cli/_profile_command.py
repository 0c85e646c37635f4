"""``autodist profile``: what the first training step of a script computes, and when."""

from __future__ import annotations

import json
from dataclasses import replace
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
    from autodist.report import ProfileSheet
    from autodist.simulator import Profile
    from autodist.tuning import ProfiledStep

_SCHEMA_VERSION = 1
_SECTIONS = {
    "How much": ("steps", "longest"),
    "What becomes of it": ("out", "all", "json"),
    **JOB_SECTIONS,
    "Bounds": ("start-timeout", "grace"),
    "What is shown": ("debug", "help"),
}


@click.command(
    "profile",
    cls=ScriptCommand,
    sections=_SECTIONS,
    epilog="Example: autodist profile train.py --steps 20",
    options_metavar="[OPTIONS]",
)
@script_argument("train.py")
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of steps to time, and to trace.",
)
@seconds_option("--longest", 30.0, "Begin no step after this time.")
@click.option("--out", metavar="FILE", help="Also write the profile to this file.")
@click.option("--all", "show_all", is_flag=True, help="One line per kind of operation and variable, however many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@cluster_options
@job_options
@debug_option
def profile(
    script: ScriptWords,
    cluster: ClusterOptions,
    options: JobOptions,
    steps: int,
    longest: float,
    out: str | None,
    show_all: bool,
    as_json: bool,
) -> int:
    """Measure what the first training step of SCRIPT computes, on one device and without updates.

    SCRIPT is `train.py` by default. It runs up to that step, and trains nothing. On a cluster, the chief runs one
    replica's part of the batch. Searches on this graph find the profile in the cache.
    """
    from autodist.report import SearchConsole
    from autodist.runtime.measuring import ProfileOrder
    from autodist.simulator import ProfileCache
    from autodist.tuning import profile as run_profile

    target = check_output(out, ".json")
    job = options.job(script, resolve_spec(cluster))
    order = ProfileOrder(steps, longest)
    console = SearchConsole()
    launcher = silent_launcher(console, options.road(job.spec))
    run_dir = job.run_dir or new_directory("profile")
    with kept_as_run("profile", job.words, run_dir):
        done = run_profile(replace(job, run_dir=run_dir), launcher, order, ProfileCache.of_user(), console.notice)
    if target is None:
        _show(done, None, show_all, as_json)
        return 0
    with written(target, done.profile.to_json() + "\n") as saved:
        _show(done, saved, show_all, as_json)
    return 0


def _show(done: ProfiledStep, out: Path | None, show_all: bool, as_json: bool) -> None:
    from autodist.report import output_console, show_profile
    from autodist.simulator import Profile

    estimate = Profile.estimate(done.graph, done.profile.batch_size)
    saved = [str(path) for path in (out, done.path) if path is not None]
    if as_json:
        told = {"profile": json.loads(done.profile.to_json()), "estimate": json.loads(estimate.to_json())}
        content = {"schema_version": _SCHEMA_VERSION, "graph": done.graph.step_id, **told, "saved": saved}
        click.echo(json.dumps(content, indent=2))
        return
    show_profile(_sheet(done.profile, estimate), show_all=show_all)
    for path in saved:
        output_console().print(f"saved {path}")


def _sheet(measured: Profile, estimate: Profile) -> ProfileSheet:
    from autodist.report import OpRow, ProfileSheet, VariableTimeRow

    ops = tuple(OpRow(op, time_s, estimate.op_s.get(op, 0.0)) for op, time_s in measured.op_s.items())
    variables = (
        VariableTimeRow(name, measured.needed_s[name], time_s, measured.variable_s[name], estimate.ready_s[name])
        for name, time_s in measured.ready_s.items()
    )
    return ProfileSheet(
        measured.device,
        measured.batch_size,
        measured.step_s,
        measured.processor_s,
        estimate.step_s,
        measured.coverage,
        measured.is_disturbed,
        ops,
        tuple(sorted(variables, key=lambda row: row.ready_s)),
    )
