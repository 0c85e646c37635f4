"""Reading the logs of a run, while it goes on as well."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from autodist.launch.run_files._run_directory import RunDirectory
from autodist.launch.run_files._status import read_status
from autodist.report import RunState

_CHUNK_BYTES = 64 * 1024
_POLL_S = 0.2


def read_logs(
    run_dir: Path, ranks: Sequence[int], num_lines: int | None = None, follow: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield rank and text of the lines that workers wrote, rank by rank, then what they go on to write.

    Args:
        run_dir: The run.
        ranks: The workers whose lines to show.
        num_lines: How many of each worker's last lines to begin with; None for all.
        follow: Whether to go on until the run has ended or is silent.
    """
    directory = RunDirectory(run_dir.name, run_dir)
    logs = {rank: _Log(directory.log(rank), num_lines) for rank in ranks}
    while True:
        state = read_status(run_dir).state  # before the logs: what is written before the end is read after it
        for rank, log in logs.items():
            yield from ((rank, line) for line in log.new_lines())
        if not follow or state in (RunState.ENDED, RunState.LOST, RunState.SILENT):
            break
        time.sleep(_POLL_S)
    for rank, log in logs.items():
        yield from ((rank, line) for line in log.close())


class _Log:
    """A file that grows by whole lines; it may be made later, and a restart begins another one."""

    def __init__(self, path: Path, num_lines: int | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._start = 0 if num_lines is None else _start_of_last_lines(path, num_lines)
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        if self._file is None:
            self._open()
        yield from self._lines()
        if self._is_replaced():
            yield from self.close()
            self._open()
            yield from self._lines()

    def close(self) -> Iterator[str]:
        """A line without an end, which a full disk may leave."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._rest:
            yield self._rest.decode(errors="replace")
            self._rest = b""

    def _open(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file = self._path.open("rb")
            self._file.seek(self._start)
            self._start = 0

    def _lines(self) -> Iterator[str]:
        while self._file is not None and (chunk := self._file.read(_CHUNK_BYTES)):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)

    def _is_replaced(self) -> bool:
        if self._file is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False  # between two attempts


def _start_of_last_lines(path: Path, num_lines: int) -> int:
    """Return where the last lines of a file begin, from its end on, however long it is."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        end = position = file.seek(0, os.SEEK_END)
        if not num_lines:
            return end
        needed = num_lines + 1  # the end of the line before counts too
        while position > 0:
            start = max(0, position - _CHUNK_BYTES)
            file.seek(start)
            block = file.read(position - start)
            if position == end and not block.endswith(b"\n"):
                needed -= 1
            if block.count(b"\n") >= needed:
                return start + _nth_last(block, needed) + 1
            needed -= block.count(b"\n")
            position = start
    return 0


def _nth_last(block: bytes, number: int) -> int:
    position = len(block)
    for _ in range(number):
        position = block.rindex(b"\n", 0, position)
    return position
