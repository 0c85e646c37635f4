"""What workers write: from bytes in pipes to whole lines in logs and on the console."""

from __future__ import annotations

import codecs
import os
import re
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from io import FileIO
from typing import IO

from autodist.launch._run_directory import RunDirectory
from autodist.report import OutputLine

__all__ = ["LineSplitter", "OutputPump"]

_CHUNK_BYTES = 65536
_LONGEST_LINE = 65536  # characters; what is longer is cut, so that a worker without line ends can't fill the memory
_BACKSPACES = re.compile("\b+")


class LineSplitter:
    r"""Turns the bytes of one stream into lines, in whatever pieces they come.

    A carriage return or a run of backspaces starts the line anew, as on a terminal: what stood there was a state of a
    progress bar, and only the last state of a line belongs into a log.

    Example:
        >>> splitter = LineSplitter(is_error=False)
        >>> [line.text for line in splitter.feed(b"one\n1/2\r2/2\ntw")]
        ['one', '2/2']
        >>> [line.text for line in splitter.close()]
        ['tw']

    """

    def __init__(self, is_error: bool) -> None:
        self._is_error = is_error
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[OutputLine]:
        """Return the lines that these bytes complete, and at most one update of the line that is still open."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in lines:
            yield self._line(_last_state(line))
        if "\r" in self._rest or "\b" in self._rest:
            yield from self._update()
        while len(self._rest) > _LONGEST_LINE:
            yield self._line(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def close(self) -> Iterator[OutputLine]:
        """Return what remains when the stream has ended."""
        rest = _last_state(self._rest + self._decoder.decode(b"", final=True))
        self._rest = ""
        if rest:
            yield self._line(rest)

    def _update(self) -> Iterator[OutputLine]:
        states = _states(self._rest)
        shown = max((index for index, state in enumerate(states) if state.strip()), default=0)
        # What was overwritten is forgotten, what is being written now may still go on.
        now = "" if shown == len(states) - 1 else f"\r{states[-1]}"
        self._rest = f"\r{states[shown]}{now}"
        if states[shown].strip():
            yield OutputLine(states[shown].rstrip(), self._is_error, is_update=True)

    def _line(self, text: str) -> OutputLine:
        return OutputLine(text, self._is_error)


def _states(line: str) -> list[str]:
    """Return what stood on the line, one after the other."""
    return _BACKSPACES.sub("\r", line).split("\r")


def _last_state(line: str) -> str:
    """Return the last text that stood on the line; blanks only clear it for the next."""
    states = _states(line)
    if len(states) == 1:
        return line
    return next((state.rstrip() for state in reversed(states) if state.strip()), "")


class OutputPump:
    """One thread that reads the streams of all workers, writes their logs and hands on every line.

    Args:
        directory: Where the logs go.
        on_line: Called with rank and line, in the pump's thread.

    """

    def __init__(self, directory: RunDirectory, on_line: Callable[[int, OutputLine], None]) -> None:
        self._directory = directory
        self._on_line = on_line
        self._selector = selectors.DefaultSelector()
        self._logs: dict[int, FileIO] = {}
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)

    def add(self, rank: int, stream: IO[bytes], is_error: bool) -> None:
        """Read a stream of a worker; all streams are added before the start."""
        if rank not in self._logs:
            self._logs[rank] = self._directory.log(rank).open("ab", buffering=0)
        self._selector.register(stream, selectors.EVENT_READ, (rank, LineSplitter(is_error)))

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait until all streams have ended, at most ``timeout_s`` seconds.

        A process that left its worker's session keeps the worker's streams open; it is not waited for.
        """
        self._stop_at = time.monotonic() + timeout_s
        if self._thread.ident is None:  # not all workers could be started; what some have written is kept
            self._thread.start()
        self._thread.join(timeout_s + 1.0)

    def _run(self) -> None:
        while self._selector.get_map() and not self._is_over():
            for key, _ in self._selector.select(timeout=0.2):
                self._read(key)
        for key in list(self._selector.get_map().values()):
            self._end(key)
        for log in self._logs.values():
            log.close()

    def _is_over(self) -> bool:
        return self._stop_at is not None and time.monotonic() > self._stop_at

    def _read(self, key: selectors.SelectorKey) -> None:
        rank, splitter = key.data
        data = os.read(key.fd, _CHUNK_BYTES)
        if not data:
            self._end(key)
        for line in splitter.feed(data):
            self._hand_on(rank, line)

    def _end(self, key: selectors.SelectorKey) -> None:
        rank, splitter = key.data
        self._selector.unregister(key.fileobj)
        for line in splitter.close():
            self._hand_on(rank, line)

    def _hand_on(self, rank: int, line: OutputLine) -> None:
        if not line.is_update:
            self._write(rank, line.text)
        self._on_line(rank, line)

    def _write(self, rank: int, text: str) -> None:
        log = self._logs[rank]
        try:
            log.write(text.encode(errors="replace") + b"\n")
        except (OSError, ValueError) as error:
            if not log.closed:
                self._on_line(rank, OutputLine(f"autodist: the log can't be written any more: {error}", is_error=True))
                log.close()
