"""Functions whose misspelt arguments are reported with the name that was meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from autodist.errors import UsageError
from autodist.registry._typed import suggestion

_F = TypeVar("_F", bound=Callable[..., Any])


def suggesting(function: _F) -> _F:
    """Have a function say which argument was meant where it is given one that it does not have.

    Example:
        >>> @suggesting
        ... def train(epochs=1): ...
        >>> train(epoch=2)
        Traceback (most recent call last):
        autodist.errors.UsageError: `train` has no argument `epoch`, did you mean `epochs`? (hint: it has epochs)
    """
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name != "self"]
    called = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        unknown = [name for name in kwargs if name not in signature.parameters]
        if unknown:
            told = (f"`{called}` has no argument `{name}`{suggestion(name, names)}" for name in unknown)
            raise UsageError("\n".join(told), hint=f"it has {', '.join(names)}")
        return function(*args, **kwargs)

    return cast(_F, checked)
