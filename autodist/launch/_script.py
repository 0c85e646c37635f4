"""Run a user's script in this process the way plain ``python`` does, and say how it ended."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from autodist.errors import AutoDistError

__all__ = ["Ending", "run_script"]

_INTERRUPTED = 130


@dataclass(frozen=True)
class Ending:
    """How a script ended.

    Attributes:
        exit_code: What the process is to return, 0 to 255.
        message: One line about the failure, empty if there was none.

    """

    exit_code: int
    message: str = ""


def run_script(script: str, args: Sequence[str]) -> Ending:
    """Run ``script`` as ``__main__`` with ``sys.argv`` and ``sys.path[0]`` as plain ``python`` sets them.

    Errors are shown on standard error: an ``AutoDistError`` as error and hint, all others with the traceback from the
    script's first frame on.
    """
    sys.argv = [script, *args]
    if not getattr(sys.flags, "safe_path", False):  # `python -P` has put no directory there
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit_:
        return _of_exit(exit_.code)
    except KeyboardInterrupt:
        return Ending(_INTERRUPTED, "interrupted")
    except AutoDistError as error:
        _show_error(error, script)
        return Ending(error.exit_code, _summary(error))
    except BaseException as error:
        traceback.print_exception(type(error), error, _from_script(error.__traceback__, script))
        return Ending(1, _summary(error))
    return Ending(0)


def _of_exit(code: object) -> Ending:
    """Return what ``sys.exit(code)`` means."""
    if code is None:
        return Ending(0)
    if isinstance(code, int):
        status = code & 0xFF
        return Ending(status, f"sys.exit({code})" if status else "")
    sys.stderr.write(f"{code}\n")
    return Ending(1, str(code).partition("\n")[0])


def _from_script(trace: TracebackType | None, script: str) -> TracebackType | None:
    """Return the traceback without the frames that only run the script; a script that doesn't compile has none left."""
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    return trace


def _show_error(error: AutoDistError, script: str) -> None:
    if os.environ.get("AUTODIST_DEBUG"):
        traceback.print_exception(type(error), error, _from_script(error.__traceback__, script))
    lines = [f"error: {error.message}"]
    frame = _from_script(error.__traceback__, script)
    if frame is not None:
        lines.append(f"  at {script}:{_deepest_line(frame, script)}")
    if error.hint:
        lines += ["", f"hint: {error.hint}"]
    sys.stderr.write("\n".join(lines) + "\n")


def _deepest_line(trace: TracebackType | None, script: str) -> int:
    """Return the last line of the user's own file that was on the way to the error."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == script:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _summary(error: BaseException) -> str:
    text = error.message if isinstance(error, AutoDistError) else str(error)
    first_line = text.partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
