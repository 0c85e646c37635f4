"""A run on the console: workers' lines with their rank before them, and the launcher's own words."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from autodist.chatter import CrashDump, is_chatter
from autodist.report._consoles import error_console, output_console
from autodist.report._errors import show_message
from autodist.report._escapes import only_colours, plain
from autodist.report._run_data import FailureKind, FailureReport, OutputLine, RunInfo, RunResult

if TYPE_CHECKING:
    from rich.console import Console

_BETWEEN_UPDATES_S = 2.0
_LONGEST_WAIT_S = 0.5
_RANK_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
_WARNING = re.compile(r".+\.py:\d+: \w*Warning: ")
_LEFT_TO_CHIEF = re.compile(r"`(.+)\.\w+` writes nothing on worker \d+: ")


class RunConsole:
    """Shows a run: standard output of workers on standard output, all else on standard error.

    Args:
        ranks: The workers whose lines are shown; None for all. Logs have the lines of all workers.
        is_verbose: Whether to show details.
        output: Where workers' standard output goes.
        errors: Where everything else goes.
        clock: Seconds, for the rate of progress bars.
        names: Strategies that are shown by another name, like those that were given a file of this process.
    """

    def __init__(
        self,
        ranks: Collection[int] | None = None,
        is_verbose: bool = False,
        output: Console | None = None,
        errors: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._ranks = ranks
        self._is_verbose = is_verbose
        self._output = output or output_console()
        self._errors = errors or error_console()
        self._clock = clock
        self._names = names
        self._last_line_s: dict[int, float] = {}
        self._dumps: dict[int, CrashDump] = {}
        self._left_to_chief: set[str] = set()
        self._warned: dict[str, int] = {}
        self._repeating: set[int] = set()
        self._prefixes: dict[tuple[int, bool], str] = {}
        self._lock = threading.Lock()

    def run_started(self, info: RunInfo) -> None:
        """Show the header."""
        workers = "1 worker" if info.world_size == 1 else f"{info.world_size} workers"
        default = self._named(info.default_strategy)
        strategy = self._named(info.strategy) or (f"the script's, else {default}" if default else "left to the script")
        self.notice(f"run {info.run_id}: {workers} ({_listed(info.hosts)}), strategy {strategy}")
        self.notice(f"logs in {shown_path(info.run_dir)}")
        if self._is_verbose:
            self.notice("no seed" if info.seed is None else f"seed {info.seed}")

    def line(self, rank: int, line: OutputLine) -> None:
        """Show a worker's line, unless it is filtered out or is one of many states of a progress bar."""
        if self._ranks is not None and rank not in self._ranks:
            return
        if not self._is_verbose and (line.is_last_word or (line.is_error and self._is_left_out(rank, line.text))):
            return
        now_s = self._clock()
        if line.is_update and now_s - self._last_line_s.get(rank, now_s - _BETWEEN_UPDATES_S) < _BETWEEN_UPDATES_S:
            return
        self._last_line_s[rank] = now_s
        self._write(rank, line)

    def _is_left_out(self, rank: int, text: str) -> bool:
        """Whether a line of standard error is chatter, repeated, or part of a crash, which is reported as a whole."""
        is_dump = self._dumps.setdefault(rank, CrashDump()).has(text)
        return is_dump or is_chatter(text) or self._is_known(text) or self._is_repeated(rank, text)

    def _is_known(self, text: str) -> bool:
        """Whether a worker says what another one has said: that a class leaves its files to the chief."""
        match = _LEFT_TO_CHIEF.match(text)
        if match is None:
            return False
        is_known = match[1] in self._left_to_chief
        self._left_to_chief.add(match[1])
        return is_known

    def _is_repeated(self, rank: int, text: str) -> bool:
        """Whether a line is a warning of Python that another worker has shown, or the line of code after it."""
        if rank in self._repeating:
            self._repeating.remove(rank)
            if text.startswith("  "):
                return True
        if _WARNING.match(text) and self._warned.setdefault(text, rank) != rank:
            self._repeating.add(rank)
        return rank in self._repeating

    def _named(self, strategy: str | None) -> str | None:
        return None if strategy is None else self._names.get(strategy, strategy)

    def notice(self, text: str) -> None:
        """Show what the launcher says."""
        with self._own_words():
            self._errors.print(f"autodist: {text}", style="dim")

    def run_ended(self, result: RunResult) -> None:
        """Show the failure if there was one, or one line."""
        where = f"{duration_text(result.duration_s)}, logs are in {shown_path(result.run_dir)}{_way_on(result)}"
        if result.failure is not None:
            with self._own_words():
                _show_failure(result.failure, result, self._errors)
        elif result.exit_code == 0:
            self.notice(f"done after {where}")
        else:
            self.notice(f"stopped after {where}")

    @contextlib.contextmanager
    def _own_words(self) -> Iterator[None]:
        """Keep lines whole, but don't wait long for the end of a worker's line: it may stay there for ever."""
        is_mine = self._lock.acquire(timeout=_LONGEST_WAIT_S)
        try:
            yield
        finally:
            if is_mine:
                self._lock.release()

    def _write(self, rank: int, line: OutputLine) -> None:
        console = self._errors if line.is_error else self._output
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):  # the reader is gone; the logs go on
            write_line(line.text, self._prefix(rank, line.is_error), console)

    def _prefix(self, rank: int, is_error: bool) -> str:
        key = (rank, is_error)
        if key not in self._prefixes:
            self._prefixes[key] = drawn_prefix(rank, self._errors if is_error else self._output)
        return self._prefixes[key]


def drawn_prefix(rank: int, console: Console) -> str:
    """Return the text that precedes a worker's lines."""
    from rich.text import Text

    with console.capture() as capture:
        console.print(Text(f"[{rank}]", style=_RANK_COLOURS[rank % len(_RANK_COLOURS)]), end="")
    return capture.get()


def write_line(text: str, prefix: str, console: Console) -> None:
    """Write a worker's line, not through rich: it is not to be parsed, and there may be very many of them."""
    has_colour = console.color_system is not None and not console.no_color
    text = only_colours(text) if has_colour else plain(text)
    reset = "\x1b[0m" if "\x1b" in text else ""
    console.file.write(_encodable(f"{prefix} {text}{reset}\n", console))
    console.file.flush()


def shown_path(path: Path) -> str:
    """Return a path the way it is best typed: from the working directory, if it is below it."""
    try:
        return shlex.quote(str(path.relative_to(Path.cwd())))
    except (ValueError, OSError):
        return shlex.quote(str(path))


def _encodable(text: str, console: Console) -> str:
    """Return the text without what the console's encoding doesn't have."""
    encoding = getattr(console.file, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _show_failure(failure: FailureReport, result: RunResult, console: Console) -> None:
    """Show which worker failed, its last lines, and last what to do."""
    how = f"signal {failure.signal}" if failure.signal else f"exit code {failure.exit_code}"
    ended = how if failure.signal or failure.exit_code is not None else _ended_otherwise(failure)
    console.print()
    console.print(f"run failed after {duration_text(result.duration_s)}, exit code {result.exit_code}", style="bold")
    console.print(
        f"  first failure  worker {failure.rank} of {result.world_size} on {failure.host}, pid {failure.pid}, {ended}"
    )
    if failure.also_failed:
        why = "with the same error" if failure.is_everywhere else "probably for that reason"
        console.print(f"  then failed    {_workers(failure.also_failed)}, {why}")
    console.print(f"  its log        {shown_path(failure.log_path)}")
    if result.away and result.steps:
        console.print(f"  its files      {_files_away(result)}")
    _show_lines("your lines", failure.trace, console)
    _show_lines(f"last lines     ({len(failure.tail)})", failure.tail, console)
    console.print()
    show_message(failure.message, failure.hint, console)


def _way_on(result: RunResult) -> str:
    """Return where the script's files are, or what to do next."""
    if result.away:
        return f"; {_files_away(result)}"
    if result.exit_code or not result.steps or not (result.run_dir / "strategy.json").exists():
        return ""  # a run of functions of arrays alone has no strategy
    return f"; next: `autodist explain {shown_path(result.run_dir)}` shows what was sent"


def _files_away(result: RunResult) -> str:
    host, directory = result.away[0]
    more = len(result.away) - 1
    others = f" and {more} other host{'s' * (more > 1)}" if more else ""
    command = f"autodist fetch {shown_path(result.run_dir)}"
    return f"what the script wrote is on {host}{others}, in {shlex.quote(directory)}: `{command}` copies it"


def _show_lines(title: str, lines: tuple[str, ...], console: Console) -> None:
    if lines:
        console.print(f"  {title}")
    for line in lines:
        console.print(f"    {plain(line)}")


def _ended_otherwise(failure: FailureReport) -> str:
    return "lost with its host" if failure.kind is FailureKind.HOST_LOST else "stopped by the launcher"


def _workers(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"worker {ranks[0]}"
    listed = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"{len(ranks)} others ({listed})"


def duration_text(duration_s: float) -> str:
    """Return a time the way people say it."""
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{duration_s:.1f} s"


def _listed(hosts: tuple[str, ...]) -> str:
    return ", ".join(hosts) if len(hosts) <= 4 else f"{', '.join(hosts[:3])}, ... {hosts[-1]}"
