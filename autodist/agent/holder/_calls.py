"""Functions that the launcher may call by name on the machine; runs there.

``"facts.python"`` is the public function ``python`` of ``autodist/agent/machine/_facts.py``: public are the names in
its ``__all__``. Such modules use the standard library only; their functions take and return what JSON can hold. They
run in threads of the agent, so they must not change what belongs to the whole process.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CallError", "call"]

_CALLABLE = ("facts", "hardware", "neighbours", "probe", "site", "versions")


class CallError(Exception):
    """The function does not exist, raised, or took too long.

    Args:
        message: What happened.
        is_timeout: Whether it took too long.
    """

    def __init__(self, message: str, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout


async def call(name: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
    """Return what a function returns; one that takes too long goes on in its thread.

    Raises:
        CallError: There is none of this name, it raised, or it took too long.
    """
    function = _find(name)
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():  # given up: it took too long
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(CallError(f"`{name}` failed: {type(error).__name__}: {error}"))

    def work() -> None:
        try:
            result, error = function(**arguments), None
        except BaseException as caught:
            result, error = None, caught
        loop.call_soon_threadsafe(settle, result, error)  # a future of asyncio is for the loop's thread alone

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        return await asyncio.wait_for(outcome, timeout_s)
    except asyncio.TimeoutError:
        raise CallError(f"`{name}` did not return within {timeout_s:g} s", is_timeout=True) from None


def _find(name: str) -> Callable[..., Any]:
    module_name, _, function_name = name.partition(".")
    path = f"autodist.agent.machine._{module_name}"
    if module_name not in _CALLABLE or importlib.util.find_spec(path) is None:
        raise CallError(f"the agent has no functions `{module_name}`")
    module = importlib.import_module(path)
    if function_name not in getattr(module, "__all__", ()):
        raise CallError(f"`{module_name}` of the agent has no function `{function_name}`")
    function: Callable[..., Any] = getattr(module, function_name)
    return function
