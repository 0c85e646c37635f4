"""Run a callback once a module has been imported, or a context around its import, without importing it.

The bootstrap must not import TensorFlow itself: a script sets variables such as ``CUDA_VISIBLE_DEVICES`` before its own
import, and they would come too late.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["after_import", "around_import"]


def after_import(name: str, callback: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call ``callback`` with the module ``name`` when its import is complete; at once if it already is.

    Returns:
        A function that cancels the call, if it has not happened.

    Example:
        >>> import json
        >>> forget = after_import("json", lambda module: print(module.__name__))
        json
    """
    if name in sys.modules:
        callback(sys.modules[name])
        return lambda: None
    finder = _Finder(name, callback)
    sys.meta_path.insert(0, finder)
    return finder.forget


def around_import(name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
    """Have the module ``name`` imported inside a context; nothing happens if it has been imported already.

    Callbacks that wait for the same module since before this call are called inside the context too.

    Example:
        >>> import contextlib
        >>> around_import("json", contextlib.nullcontext)
    """
    if name not in sys.modules:
        sys.meta_path.insert(0, _Finder(name, lambda _: None, context))


class _Finder:
    """Finds one module through the other finders, and has its loader call back; removes itself then."""

    def __init__(
        self,
        name: str,
        callback: Callable[[ModuleType], None],
        context: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._name = name
        self._callback = callback
        self._context = context
        self._searching = False

    def forget(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name or self._searching:
            return None
        self._searching = True  # of two that wait for one module, each asks the other
        try:
            return self._find(name, path, target)
        finally:
            self._searching = False

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            spec = None if finder is self or not hasattr(finder, "find_spec") else finder.find_spec(name, path, target)
            if spec is not None:
                self._watch(spec)
                return spec
        return None

    def _watch(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self.forget()
            with self._context():
                execute(module)
                self._callback(module)

        loader.exec_module = exec_module
