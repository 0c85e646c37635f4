"""The progress of long work: one line that changes on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from autodist.report._consoles import error_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_BETWEEN_LINES_S = 15.0


def left(seconds: float) -> str:
    """The time to an end, as people read it.

    Example:
        >>> left(75)
        '1:15 left'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} left"


class LiveLine:
    """A line on standard error; a context that leaves it as it is at the end."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or error_console()
        self._clock = clock
        self._live: Live | None = None
        self._last_s = float("-inf")

    def notice(self, text: str) -> None:
        """Show a line that stays."""
        self._console.print(f"autodist: {text}", style="dim")

    def show(self, text: str, *, is_last: bool = False) -> None:
        """Show the progress of the work."""
        if self._console.is_terminal:
            self._show_live(text)
        elif self._clock() - self._last_s >= _BETWEEN_LINES_S or is_last:
            self._last_s = self._clock()
            self.notice(text)

    def count(self, what: str, total: int) -> Callable[[], None]:
        """Return what is to be called after each of this many pieces of work, to show how many are done."""
        begun_s, done = self._clock(), 0

        def advance() -> None:
            nonlocal done
            done += 1
            rest_s = (self._clock() - begun_s) / done * (total - done)
            self.show(f"{done} of {total} {what}, {left(rest_s)}", is_last=done == total)

        return advance

    def _show_live(self, text: str) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(text, refresh=True)

    def close(self) -> None:
        """Leave the last line as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
