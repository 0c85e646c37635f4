"""Replaces attributes of TensorFlow and Keras while a step is traced or a scope is open."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


class Patches(contextlib.ExitStack):
    """Replaces attributes temporarily; leaving this context restores them, the last one first."""

    def replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        """Replace ``owner.name``, of a class or a module, by what `wrap` returns for it, until this context closes."""
        original = owner.__dict__[name]
        setattr(owner, name, wrap(original))
        self.callback(setattr, owner, name, original)
