"""From an exception that has ended a script to what its user wants to know: the innermost error, and the own line."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autodist import carriers, errors
from autodist.coordination import CODE, FailureNote, current_worker
from autodist.errors import AutoDistError, WorkerFailed
from autodist.installation import explain_import_error
from autodist.user_code import is_user_code, shown_file

_ECHOES = frozenset({"UnavailableError", "AbortedError"})
_MEMORY_HINT = (
    "this worker's memory is full: take a smaller batch, more workers, or a strategy that divides the variables "
    "among hosts, such as `--strategy PartitionedPS`"
)
_MOST_CALLS = 12
_MOST_LINES = 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+), in ', re.MULTILINE)
_KIND = re.compile(r"(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Iteration)): ")
_IN_USER_CODE = re.compile(r"\s*in user code:\n")
_KERAS = re.compile(
    r"Exception encountered when calling (?P<call>.+?)\.\n\n(?P<inner>.*?)(?:\n\nArguments received by .*)?\Z",
    re.DOTALL,
)
_KERAS_SHAPE = re.compile(
    r"Could not automatically infer the output shape / dtype of .*? Error encountered:\n\n(?P<inner>.*)\Z", re.DOTALL
)
_FUNCTION_NODE = re.compile(r"^\{\{function_node .*?\}\} ")
_NODE = re.compile(r"\s*\[\[\{\{node (?P<node>[^}]+)\}\}\]\].*\Z", re.DOTALL)
_STEP = re.compile(r"^step_[\d_]+/(?:replica_\d+/)?")
_LOCATED = re.compile(r"Graph execution error:\n\n(?P<calls>.*?)\nNode: '[^\n]*'\n(?P<message>.*)\Z", re.DOTALL)
_OP_SUFFIX = re.compile(r"\s*\[Op:\w+\].*\Z", re.DOTALL)
_PYTHON_INSIDE = re.compile(r"\nTraceback \(most recent call last\):\n(?P<trace>.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class _Call:
    """A line of the user's code on the way to the error."""

    file: str
    line: int

    def place(self, script: str) -> str:
        return f"{_shown(self.file, script)}:{self.line}"

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True)
class _Told:
    """The words of an exception: what kind of error it is, its message, and the user's calls, the innermost last."""

    kind: str
    message: str
    calls: tuple[_Call, ...] = ()


def note_of(error: BaseException, script: str, exit_code: int = 1) -> FailureNote:
    """Return what the launcher learns of an exception that has ended the script.

    Args:
        error: The exception.
        script: The script's path, as it was given.
        exit_code: What the process is about to return.
    """
    told = _told(error)
    calls = [call for call, _ in itertools.groupby(told.calls)][-_MOST_CALLS:]
    place = calls[-1].place(script) if calls else ""
    trace = tuple(f"{call.place(script)}  {call.text}".rstrip() for call in calls)
    own = _own(error, told)
    return FailureNote(
        message=_sentence(told) if own is None else own.message,
        exit_code=exit_code,
        hint=(_hint(error) if own is None else own.hint) or "",
        place=place,
        trace=(*trace, *_causes(error, script)),
        is_echo=any(map(_is_about_another, _chain(error))),
    )


def _shown(file: str, script: str) -> str:
    """Return a file's path for users; for a file that was sent here, its path below the script's directory."""
    run_dir = current_worker().environment.run_dir
    sent = "" if run_dir is None else str(run_dir.parent / CODE) + os.sep
    return file.removeprefix(sent) if sent and file.startswith(sent) else shown_file(file, script)


def trace_of(error: BaseException, script: str) -> str:
    """Return the traceback, without the frames that only run the script; one that doesn't compile has no others."""
    trace = error.__traceback__
    while trace is not None and not (trace.tb_frame.f_code.co_filename == script or _is_module(trace.tb_frame)):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _is_module(frame: object) -> bool:
    """Whether a frame is that of the script's own top, also where it was started by its module's name."""
    code, names = frame.f_code, frame.f_globals  # type: ignore[attr-defined]
    return bool(code.co_name == "<module>" and names.get("__name__") == "__main__" and is_user_code(code.co_filename))


def _own(error: BaseException, told: _Told) -> AutoDistError | None:
    """Return the error if it is one of ours; of one that AutoGraph has raised again, the text holds the hint."""
    if isinstance(error, AutoDistError) and told.message == error.message:
        return error
    kind = getattr(errors, told.kind.rpartition(".")[2], None)
    if not (isinstance(kind, type) and issubclass(kind, AutoDistError)):
        return None
    message, _, hint = told.message.strip().rpartition(" (hint: ")
    return AutoDistError(message, hint=hint.removesuffix(")")) if message else AutoDistError(hint)


def _told(error: BaseException) -> _Told:
    if isinstance(error, AutoDistError) and not _IN_USER_CODE.match(error.message):
        return _Told(type(error).__name__, error.message, _calls(error))
    if isinstance(error, SyntaxError) and error.filename:
        return _Told(type(error).__name__, error.msg, (*_calls(error), _Call(error.filename, error.lineno or 0)))
    return _unwrapped(_Told(type(error).__name__, _COLOURS.sub("", str(error)), _calls(error)))


def _calls(error: BaseException) -> tuple[_Call, ...]:
    frames = traceback.walk_tb(error.__traceback__)
    return tuple(_Call(file, line) for frame, line in frames if is_user_code(file := frame.f_code.co_filename))


def _unwrapped(told: _Told) -> _Told:
    """Take off what AutoGraph, Keras and TensorFlow's executor put around the error of a user's function."""
    for unwrap in (_without_autograph, _without_keras, _without_executor):
        inner = unwrap(told)
        if inner is not None:
            return _unwrapped(inner)
    return told


def _without_autograph(told: _Told) -> _Told | None:
    """``in user code:``, the calls, an empty line, and then the error with its kind, all of it indented."""
    match = _IN_USER_CODE.match(told.message)
    if match is None:
        return None
    text = textwrap.dedent(told.message[match.end() :]).strip("\n")
    calls, _, rest = text.partition("\n\n")
    return _of_text(rest or calls, told.kind, (*told.calls, *_calls_in(calls)))


def _without_keras(told: _Told) -> _Told | None:
    """The layer, and what it was called with; or that its output's shape is therefore not known."""
    match = _KERAS.match(told.message.strip())
    if match is not None:
        return replace(told, message=f"{textwrap.dedent(match['inner']).strip()} (in {match['call']})")
    match = _KERAS_SHAPE.match(told.message.strip())
    return None if match is None else replace(told, message=match["inner"])


def _without_executor(told: _Told) -> _Told | None:
    """The function that the node is in, the node, and of a Python function its own traceback."""
    text = _FUNCTION_NODE.sub("", told.message)
    inside = _PYTHON_INSIDE.search(text)
    if inside is not None:
        head = text[: inside.start()].strip()
        own = _KIND.search(head)
        return _of_text(head[own.start() :] if own else head, told.kind, (*told.calls, *_calls_in(inside["trace"])))
    located = _LOCATED.match(text)
    if located is not None:
        return replace(told, message=located["message"], calls=(*told.calls, *_calls_in(located["calls"])))
    node = _NODE.search(text)
    if node is not None:
        text = f"{text[: node.start()]} (in `{_STEP.sub('', node['node'])}`)"
    text = _OP_SUFFIX.sub("", text)
    return None if text == told.message else replace(told, message=text)


def _of_text(text: str, kind: str, calls: tuple[_Call, ...]) -> _Told:
    match = _KIND.match(text)
    return _Told(kind if match is None else match["kind"], text[match.end() :] if match else text, calls)


def _calls_in(text: str) -> tuple[_Call, ...]:
    found = (_Call(match["file"], int(match["line"])) for match in _FRAME.finditer(text))
    return tuple(call for call in found if is_user_code(call.file))


def _sentence(told: _Told) -> str:
    lines = told.message.strip().split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} more lines"]
    kind = told.kind.rpartition(".")[2]
    if lines != [""]:
        return f"{kind}: {chr(10).join(line.rstrip() for line in lines)}"
    return f"{kind} in `{told.calls[-1].text}`" if told.calls and told.calls[-1].text else kind


def _causes(error: BaseException, script: str) -> tuple[str, ...]:
    """Return a line for each exception that this one was raised from, or while handling."""
    lines: list[str] = []
    said = {_sentence(_told(error))}
    for cause in () if isinstance(error, AutoDistError) else itertools.islice(_chain(error), 1, None):
        told = _told(cause)
        where = f" at {told.calls[-1].place(script)}" if told.calls else ""
        if (sentence := _sentence(told)) not in said:
            said.add(sentence)
            lines.append(f"because of {sentence.partition(chr(10))[0]}{where}")
    return tuple(lines)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, and those that it was raised from, or while handling."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)


def _is_about_another(error: BaseException) -> bool:
    """Whether an error only says that another worker does not answer any more."""
    return isinstance(error, WorkerFailed) or type(error).__name__ in _ECHOES.union(
        *(carrier.peer_errors for carrier in carriers.carriers())
    )


def _hint(error: BaseException) -> str:
    if isinstance(error, AutoDistError):
        return error.hint or ""
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return _MEMORY_HINT
    if not isinstance(error, ModuleNotFoundError):
        return ""
    ours = explain_import_error(error)
    if ours is not None:
        return ours.hint or ""
    return f"install it for `{sys.executable}`, the interpreter of the worker, or put it next to the script"
