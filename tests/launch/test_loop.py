"""Coroutines for threads that are not asynchronous."""

import asyncio
import concurrent.futures
import threading

import pytest

from autodist.launch._loop import LoopThread


def test_results_and_errors_come_back():
    async def fails():
        raise asyncio.TimeoutError("its own")

    with LoopThread() as loop:
        assert loop.run(asyncio.sleep(0.25, "done")) == "done"
        with pytest.raises(asyncio.TimeoutError, match="its own"):
            loop.run(fails())


def test_what_is_cancelled_cleans_up_and_what_is_left_ends_with_the_thread():
    cleaned = []

    async def waits(name):
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(name)

    before = threading.active_count()
    with LoopThread() as loop:
        with pytest.raises(concurrent.futures.CancelledError):
            loop.run(waits("cancelled"), is_cancelled=lambda: True)
        loop.start(waits("left"))
        loop.run(asyncio.sleep(0.05))
    assert cleaned == ["cancelled", "left"]
    assert threading.active_count() == before
