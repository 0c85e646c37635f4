"""Cells of a notebook on several workers.

    %load_ext autodist.notebook

and then, above a cell that is a whole training script::

    %%autodist --workers 2 train.py -- --epochs 3

The line holds what ``autodist run`` takes. The cell is written into the file that is named there, or into
``autodist_cell.py``, and the workers run that file: they are processes of their own, without the notebook's variables.
To keep a result, the cell saves it: ``model.save("trained.keras")``.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from autodist.errors import UsageError, WorkerFailed

__all__ = ["load_ipython_extension", "run_cell"]

_FILE = "autodist_cell.py"
_SUFFIX = ".py"
_PATIENCE_S = 30.0


def load_ipython_extension(shell: Any) -> None:
    """Have ``%%autodist`` in a notebook; ``%load_ext autodist.notebook`` calls this."""
    shell.register_magic_function(run_cell, magic_kind="cell", magic_name="autodist")


def run_cell(line: str, cell: str) -> None:
    """Run a cell by ``autodist run``, and print what it prints.

    Args:
        line: What follows ``%%autodist``: options, the name of a file for the cell, and after ``--`` arguments.
        cell: A whole script.

    Raises:
        UsageError: The file is there, and its text was not written from a cell.
        WorkerFailed: The run has failed; what it printed says why.

    Example:
        >>> run_cell("--workers 2 -- --epochs 3", "import autodist")             # doctest: +SKIP
    """
    words, file = _words(line)
    _write(file, cell)
    code = _streamed([sys.executable, "-m", "autodist", "run", *words])
    if code:
        raise WorkerFailed(
            f"`autodist run` ended with exit code {code}", hint="the lines above say why", exit_code=code
        )


_MARK = "# Written from a cell of a notebook by %%autodist"
_HEAD = f"{_MARK}: running the cell again replaces it.\n"


def _words(line: str) -> tuple[list[str], Path]:
    """Return the words for ``autodist run``, and which of them is the cell's file."""
    try:
        given = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"`%%autodist {line}`: {error}", hint="close the quotation mark") from None
    end = given.index("--") if "--" in given else len(given)
    options, arguments = given[:end], given[end:]
    named = [word for word in options[-1:] if word.endswith(_SUFFIX)]
    file = named[0] if named else _FILE
    return [*options[: len(options) - len(named)], file, *arguments], Path(file)


def _write(file: Path, cell: str) -> None:
    """Write the cell into a file, but not over one that was not written from a cell."""
    if file.is_file() and not file.read_text(encoding="utf-8").startswith(_MARK):
        raise UsageError(
            f"`{file}` is there, and was not written from a cell: the cell would replace it",
            hint="give another name, as in `%%autodist --workers 2 cell.py`; a file that is there is run by "
            f"`!autodist run {file} --workers 2`",
        )
    file.write_text(_HEAD + cell, encoding="utf-8")


def _streamed(command: list[str]) -> int:
    """Run a command, print its lines as they come, and return its exit code; an interruption is handed on."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
        return process.wait()
    except BaseException:
        _interrupt(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End a run as Ctrl-C does, so that it leaves nothing."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_PATIENCE_S)
        return
    process.kill()
    process.wait()
