"""Run a user's script in this process the way plain ``python`` does, and say how it ended."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autodist.coordination import FailureNote, say_last
from autodist.errors import AutoDistError
from autodist.worker._exceptions import note_of, trace_of

_INTERRUPTED = 130


@dataclass(frozen=True)
class Ending:
    """How a script ended.

    Attributes:
        exit_code: What the process is to return, 0 to 255.
        note: What to tell of the failure; None if there was none.
    """

    exit_code: int
    note: FailureNote | None = None

    @classmethod
    def failed(cls, note: FailureNote) -> Ending:
        """Return the ending that a failure note describes."""
        return cls(note.exit_code, note)


def run_script(script: str, args: Sequence[str]) -> Ending:
    """Run ``script`` as ``__main__`` with ``sys.argv`` and ``sys.path[0]`` as plain ``python`` sets them.

    Errors are shown on standard error: an ``AutoDistError`` as error and hint, all others with the traceback from the
    script's first frame on.
    """
    sys.argv = [script, *args]
    _import_from(os.path.dirname(os.path.realpath(script)))
    return _ending(lambda: runpy.run_path(script, run_name="__main__"), script)


def run_module(name: str, root: str, args: Sequence[str]) -> Ending:
    """Run a module as :func:`run_script` does a script, the way plain ``python -m`` does.

    Args:
        name: The module's name.
        root: The directory that has it, or its top package.
        args: Its arguments.
    """
    sys.argv = [name, *args]
    _import_from(os.getcwd() if root in sys.path[1:] else root)
    return _ending(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), os.path.join(root, name))


def _import_from(directory: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # `python -P` has put no directory there
        sys.path[0] = directory


def _ending(run: Callable[[], object], script: str) -> Ending:
    try:
        run()
    except SystemExit as exit_:
        return _of_exit(exit_, script)
    except KeyboardInterrupt:
        return Ending.failed(FailureNote("interrupted", _INTERRUPTED))
    except AutoDistError as error:
        note = note_of(error, script, error.exit_code)
        _show_error(error, note, script)
        return Ending.failed(note)
    except BaseException as error:
        say_last(trace_of(error, script))
        return Ending.failed(note_of(error, script))
    return Ending(0)


def _of_exit(exit_: SystemExit, script: str) -> Ending:
    """Return what ``sys.exit(code)`` means."""
    code = exit_.code
    if code is None:
        return Ending(0)
    if isinstance(code, int):
        status = code & 0xFF
        note = replace(note_of(exit_, script, status), message=f"sys.exit({code})")
        return Ending.failed(note) if status else Ending(0)
    say_last(str(code))
    return Ending.failed(replace(note_of(exit_, script), message=str(code).strip()))


def _show_error(error: AutoDistError, note: FailureNote, script: str) -> None:
    """Show an error as message, line and hint; with its traceback if that is wanted."""
    lines = [trace_of(error, script)] if os.environ.get("AUTODIST_DEBUG") else []
    lines.append(f"error: {error.message}")
    if note.place:
        lines.append(f"  at {note.place}")
    if error.hint:
        lines += ["", f"hint: {error.hint}"]
    say_last("\n".join(lines))
