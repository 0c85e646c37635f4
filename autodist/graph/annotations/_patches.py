"""Functions of TensorFlow and Keras that are others while a step is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


def replace_method(patches: contextlib.ExitStack, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Replace a method of a class, or a function of a module, until the stack is left.

    Args:
        patches: Puts the original back.
        owner: The class or the module.
        name: Name of the method.
        wrap: Makes the new one from the original.
    """
    original = owner.__dict__[name]
    setattr(owner, name, wrap(original))
    patches.callback(setattr, owner, name, original)
