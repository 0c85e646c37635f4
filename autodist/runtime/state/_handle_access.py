"""Accesses to the program's variables, noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HandleAccess:
    """The attribute ``_handle``, by which every access to a variable goes, that of TensorFlow's C++ code included.

    Instances have the attribute in their ``__dict__``; a descriptor of their class that can be set overrides it.

    Args:
        before: Called with the handle at each access.
    """

    def __init__(self, before: Callable[[Any], None]) -> None:
        self._before = before

    def __get__(self, variable: Any, owner: Any = None) -> Any:
        if variable is None:
            return self
        try:
            handle = variable.__dict__["_handle"]
        except KeyError:
            raise AttributeError("_handle") from None
        self._before(handle)
        return handle

    def __set__(self, variable: Any, handle: Any) -> None:
        variable.__dict__["_handle"] = handle
