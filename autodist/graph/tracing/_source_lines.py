"""Where in the user's files something comes from: an op, an error of tracing, the code that is running."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from autodist.user_code import OUR_DIRECTORY

SOURCE_GRAPH = "_autodist_source"
"""Attribute of a function's graph: where its ops were imported from, under the same names."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_IN_TEXT = re.compile(r'File "([^"]+)", line (\d+)')


class SourceLines:
    """Where in the user's files the ops of a graph were made."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def of(self, name: str) -> str:
        """``file:line`` of the user's code nearest to the op, or the op's name where there is none."""
        while name:
            try:
                operation = self._graph.get_operation_by_name(name)
            except KeyError:
                name = name.rpartition("/")[0]  # an inlined op: the call that brought it in
                continue
            return _nearest((f.filename, f.lineno) for f in self._traceback(operation)) or operation.name
        return "an unknown line"

    def _traceback(self, operation: Any) -> Any:
        """Where an op was made; one that was imported has it in the graph that it comes from."""
        source = getattr(self._graph, SOURCE_GRAPH, None)
        if operation.traceback is None and source is not None:
            with contextlib.suppress(KeyError):
                return source.get_operation_by_name(operation.name).traceback or ()
        return operation.traceback or ()


def line_of_error(error: BaseException) -> str | None:
    """``file:line`` of the user's code that has failed while it was traced, None where there is none."""
    # AutoGraph, which runs a copy of the code, says in the text which lines of the original were running.
    told = [(file, int(number)) for file, number in _IN_TEXT.findall(str(error))]
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _nearest(told) or _nearest(frames)


def said_in_tracing(error: BaseException) -> str:
    """The last line of an error of tracing, without the place of its raising and the arguments that Keras lists."""
    text = _COLOURS.sub("", str(error)).partition("Arguments received by")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind = type(error).__name__
    return f"{kind}: {(lines[-1] if lines else '').removeprefix(f'{kind}: ')}"


def line_of_caller() -> str | None:
    """``file:line`` of the code that has called ours, None if it is not the user's."""
    from tensorflow.python.util import tf_stack

    for frame in reversed(tf_stack.extract_stack()):
        if not frame.filename.startswith(OUR_DIRECTORY) and not _is_of_autograph(frame.filename):
            return None if _is_foreign(frame.filename) else f"{frame.filename}:{frame.lineno}"
    return None


def line_of_user() -> str | None:
    """``file:line`` of the user's code that runs, by itself or by what it has called."""
    from tensorflow.python.util import tf_stack

    return _nearest([(frame.filename, frame.lineno) for frame in tf_stack.extract_stack()])


def is_users(frame: FrameType | None, *, through: Collection[str] = ()) -> bool:
    """Whether a frame runs the user's code, or TensorFlow on its behalf.

    Args:
        frame: The frame.
        through: Functions that may come in between, with what TensorFlow wraps around them.
    """
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if _is_generated(file) or not _is_foreign(file):
            return True
        is_between = name in through or (bool(through) and "/tensorflow/python/util/" in file)
        if not (is_between or _is_of_autograph(file)):
            return False
        frame = frame.f_back
    return False


def _is_generated(file: str) -> bool:
    """Whether AutoGraph has made a file from other code."""
    return "__autograph_generated_file" in file


def _is_of_autograph(file: str) -> bool:
    """Whether a file is of AutoGraph itself, which makes calls for other code."""
    return "/tensorflow/python/autograph/" in file


@cache
def _is_foreign(file: str) -> bool:
    """Whether a file is not the user's, but of Python, a package or ours."""
    parts = ("site-packages", "lib/python")
    return file.startswith(_foreign()) or _is_generated(file) or any(part in file for part in parts)


def _nearest(places: Iterable[tuple[str, int]]) -> str | None:
    users = [f"{file}:{number}" for file, number in places if not _is_foreign(file)]
    return users[-1] if users else None


@cache
def _foreign() -> tuple[str, ...]:
    import keras
    import tensorflow as tf

    return (*(str(Path(module.__file__).parent) for module in (tf, keras)), OUR_DIRECTORY)
