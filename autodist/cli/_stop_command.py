"""``autodist stop``: Ctrl-C for a run in another terminal."""

from __future__ import annotations

import click

from autodist.cli.options import Number, debug_option


@click.command("stop", epilog="Example: autodist stop latest")
@click.argument("run")
@click.option("--now", is_flag=True, help="Kill what is left at once, without the grace time.")
@click.option(
    "--timeout", metavar="SECONDS", type=Number(min=0), default=120.0, show_default=True,
    help="Longest wait for the end.",
)  # fmt: skip
@debug_option
def stop(run: str, now: bool, timeout: float) -> None:
    """Ask the launcher of RUN to end it, as Ctrl-C does, and wait until nothing of it is left.

    RUN is a run's name, the beginning of it, `latest`, or a path. For a run that has ended there is nothing to do.
    """
    from autodist.launch import find_run, read_status, stop_run
    from autodist.report import RunState, error_console

    run_dir = find_run(run)
    before = read_status(run_dir)
    after = stop_run(run_dir, timeout, now)
    how = "its launcher was killed" if after.state is RunState.LOST else f"exit code {after.exit_code}"
    had = "had ended already" if before.is_over else "has ended"
    error_console().print(f"autodist: run {after.run_id} {had}, {how}")
