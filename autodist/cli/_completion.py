"""``autodist completion``, and what a shell completes: commands, options, strategies, runs and files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from autodist.cli.options import debug_option
from autodist.errors import AutoDistError

_VARIABLE = "_AUTODIST_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog="Example: echo 'eval \"$(autodist completion bash)\"' >> ~/.bashrc")
@click.argument("shell", type=click.Choice(_SHELLS))
@debug_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, strategies, runs and files.

    For bash and zsh, `eval "$(autodist completion bash)"` in ~/.bashrc or ~/.zshrc; for fish, write it to
    ~/.config/fish/completions/autodist.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "one of click's own"
    click.echo(found(ctx.find_root().command, {}, "autodist", _VARIABLE).source())


def with_completion(command: click.Command) -> click.Command:
    """Have a command's parameters completed by their meaning, which their names and metavars say."""
    for parameter in command.params:
        name, metavar = parameter.name or "", parameter.metavar or ""
        if name == "run" or metavar.endswith("RUN"):
            _complete(parameter, _runs)
        elif metavar == "STRATEGY" or (
            name in ("strategy", "a", "b") and (isinstance(parameter, click.Argument) or "NAME" in metavar)
        ):
            _complete(parameter, _strategies)
        elif name == "script" or "FILE" in metavar or metavar == "PATH":
            _complete(parameter, lambda text: [CompletionItem(text, type="file")])
        elif metavar == "DIR":
            _complete(parameter, lambda text: [CompletionItem(text, type="dir")])
    return command


def _complete(parameter: click.Parameter, find: Callable[[str], list[CompletionItem]]) -> None:
    parameter.shell_complete = lambda ctx, incomplete: find(incomplete)  # type: ignore[method-assign]


def _runs(text: str) -> list[CompletionItem]:
    from autodist.launch import list_runs

    found = [CompletionItem("latest")] if Path("runs", "latest").exists() else []
    with contextlib.suppress(AutoDistError, OSError):
        found += [CompletionItem(run.run_dir.name, help=f"{run.script} {run.state.value}") for run in list_runs()]
    matching = [item for item in found if item.value.startswith(text)]
    return matching or [CompletionItem(text, type="dir")]


def _strategies(text: str) -> list[CompletionItem]:
    from autodist.strategies import builders

    found = [CompletionItem(info.name, help=info.summary) for info in builders() if info.name.startswith(text)]
    return found or [CompletionItem(text, type="file")]
