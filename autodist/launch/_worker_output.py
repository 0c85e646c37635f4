"""The output of workers: from bytes in pipes to whole lines in logs and on the console."""

from __future__ import annotations

import codecs
import queue
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from autodist.coordination import LAST_WORDS_MARK
from autodist.launch.run_files import RunDirectory
from autodist.report import OutputLine

_MOST_WAITING_BYTES = 4 * 1024 * 1024
_LAST_PIECE_S = 1.0
_LONGEST_LINE = 65536  # characters; what is longer is cut, so that a worker without line ends can't fill the memory
_BACKSPACES = re.compile("\b+")


class LineSplitter:
    r"""Turns the bytes of one stream into lines, in whatever pieces they come.

    A carriage return or a run of backspaces starts the line again, as on a terminal: what was there is a state of a
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
        is_last = self._is_error and text.startswith(LAST_WORDS_MARK)
        return OutputLine(text.removeprefix(LAST_WORDS_MARK) if is_last else text, self._is_error, is_last_word=is_last)


def _states(line: str) -> list[str]:
    """Return the texts that were on the line, one after the other."""
    return _BACKSPACES.sub("\r", line).split("\r")


def _last_state(line: str) -> str:
    """Return the last text on the line; blanks only clear it for the next."""
    states = _states(line)
    if len(states) == 1:
        return line
    return next((state.rstrip() for state in reversed(states) if state.strip()), "")


class OutputPump:
    """One thread that takes what all workers write, keeps it in their logs and hands on every line.

    A full disk or a stopped terminal must not hold up the reader of the workers' streams, so the bytes wait here; a
    reader that can hold back does so while :attr:`is_full`.

    Args:
        directory: Where the logs go.
        num_workers: How many logs there are.
        on_line: Called with rank and line, in the pump's thread.
    """

    def __init__(self, directory: RunDirectory, num_workers: int, on_line: Callable[[int, OutputLine], None]) -> None:
        self._on_line = on_line
        self._pieces: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._fed = 0
        self._taken = 0
        self._splitters: dict[tuple[int, bool], LineSplitter] = {}
        self._logs: list[FileIO | None] = [self._opened(rank, directory.log(rank)) for rank in range(num_workers)]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be written that the workers should wait, too."""
        return self._fed - self._taken > _MOST_WAITING_BYTES

    def feed(self, rank: int, data: bytes, is_error: bool) -> None:
        """Take bytes that a worker wrote; never blocks, for one thread."""
        self._fed += len(data)
        self._pieces.put(_Piece(rank, data, is_error))

    def finish(self, timeout_s: float) -> None:
        """Wait until all that was fed is written; give up when nothing was for ``timeout_s`` seconds."""
        self._pieces.put(None)
        taken = -1
        while self._thread.is_alive() and taken != self._taken:
            taken = self._taken
            self._thread.join(timeout_s)
        self._is_over.set()
        self._thread.join(_LAST_PIECE_S)

    def _run(self) -> None:
        while not self._is_over.is_set() and (piece := self._pieces.get()) is not None:
            self._take(piece)
        for (rank, _), splitter in self._splitters.items():
            for line in splitter.close():
                self._hand_on(rank, line)
        for log in filter(None, self._logs):
            log.close()

    def _opened(self, rank: int, path: Path) -> FileIO | None:
        try:
            return path.open("ab", buffering=0)
        except OSError as error:
            self._tell_of_missing(rank, error)
            return None

    def _tell_of_missing(self, rank: int, error: Exception) -> None:
        self._on_line(rank, OutputLine(f"autodist: the log can't be written any more: {error}", is_error=True))

    def _take(self, piece: _Piece) -> None:
        key = (piece.rank, piece.is_error)
        if key not in self._splitters:
            self._splitters[key] = LineSplitter(piece.is_error)
        for line in self._splitters[key].feed(piece.data):
            self._hand_on(piece.rank, line)
        self._taken += len(piece.data)

    def _hand_on(self, rank: int, line: OutputLine) -> None:
        if not line.is_update:
            self._write(rank, line.text)
        self._on_line(rank, line)

    def _write(self, rank: int, text: str) -> None:
        log = self._logs[rank]
        if log is None:
            return
        try:
            log.write(text.encode(errors="replace") + b"\n")
        except OSError as error:
            self._tell_of_missing(rank, error)
            log.close()
            self._logs[rank] = None


@dataclass(frozen=True)
class _Piece:
    rank: int
    data: bytes
    is_error: bool
