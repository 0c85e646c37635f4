"""The group of all commands, and what becomes of their errors."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from autodist import __version__
from autodist.cli._completion import with_completion
from autodist.cli._help import HelpContext, WholeGroup
from autodist.cli.options import debug_option, is_debugging
from autodist.errors import AutoDistError, LaunchError, UsageError
from autodist.installation import explain_import_error

_INTERRUPTED = 130
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

# One line per command: its module, which has a click command of the same name.
_COMMANDS = {
    "run": "autodist.cli._run_command",
    "search": "autodist.cli._search_command",
    "profile": "autodist.cli._profile_command",
    "timeline": "autodist.cli._timeline_command",
    "trials": "autodist.cli._trials_command",
    "best": "autodist.cli._best",
    "simulator": "autodist.cli._simulator",
    "plot": "autodist.cli._plot",
    "status": "autodist.cli._status_command",
    "logs": "autodist.cli._logs_command",
    "stop": "autodist.cli._stop_command",
    "fetch": "autodist.cli._fetch_command",
    "certify": "autodist.cli._certify_command",
    "strategies": "autodist.cli._strategies",
    "explain": "autodist.cli._explain_command",
    "diff": "autodist.cli._diff_command",
    "init": "autodist.cli._init",
    "doctor": "autodist.cli._doctor",
    "test": "autodist.cli._test_command",
    "clean": "autodist.cli._clean_command",
    "env": "autodist.cli._env",
    "completion": "autodist.cli._completion",
}


class _LazyGroup(WholeGroup):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        command.context_class = HelpContext
        return with_completion(command)


@click.group(
    cls=_LazyGroup,
    commands=dict.fromkeys(_COMMANDS),  # names for click's suggestions
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: autodist run train.py --workers 2",
)
@click.version_option(__version__, "-V", "--version", prog_name="autodist")
@debug_option
def autodist() -> None:
    """Train a single-device TensorFlow script on several workers, with the single-device result."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the process' exit code.

    0 success; 1 a worker failed, or its own code; 2 usage or resource spec; 3 a check failed; 124 timeout; 130 Ctrl-C.

    Args:
        argv: Arguments after the program's name; those of the process by default.
    """
    _open_outputs()
    try:
        result = autodist.main(args=argv, prog_name="autodist", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _show(_as_ours(error))
    except AutoDistError as error:
        return _show(error)
    except ImportError as error:
        missing = explain_import_error(error)
        if missing is None or is_debugging():
            raise
        return _show(missing)
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("\n")
        return _INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 1
    except OSError as error:
        if error.errno not in _DISK_ERRORS or is_debugging():
            raise
        return _show(LaunchError(str(error), hint="make room, or work in another directory"))
    _flush()
    return result if isinstance(result, int) else 0


def _open_outputs() -> None:
    """Let a command print to nowhere that was started without an output, as by ``>&-``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _flush() -> None:
    """Write what is held back, as long as a reader may be there."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()


def _forget_output() -> None:
    """Keep Python from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_ours(error: click.ClickException) -> AutoDistError:
    """Return an error of click's as one of AutoDist's."""
    context = getattr(error, "ctx", None)
    command = "autodist" if context is None else context.command_path
    kind = UsageError if isinstance(error, click.UsageError) else AutoDistError
    return kind(error.format_message().rstrip("."), hint=f"see `{command} --help`", exit_code=error.exit_code)


def _show(error: AutoDistError) -> int:
    from autodist.report import show_error

    if is_debugging():
        traceback.print_exception(error)
    show_error(error)
    return error.exit_code
