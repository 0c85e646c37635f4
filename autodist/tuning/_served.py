"""Something that is done with launched workers, while the main thread launches them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from autodist.tuning._measurer import LaunchedMeasurer

_T = TypeVar("_T")


def served(measurer: LaunchedMeasurer, act: Callable[[], _T], name: str) -> _T:
    """Do something in another thread, and start workers for it in this one until it is done.

    Returns:
        What it returns; what it raises is raised.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(act())
        except BaseException as error:
            errors.append(error)
        finally:
            measurer.close()  # ends `serve`, which else waits for the next strategy

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        measurer.serve()
    finally:
        measurer.close()  # before the join: else the thread waits for answers that nobody brings any more
        thread.join()
    for error in errors:
        raise error
    return results[0]
