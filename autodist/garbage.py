"""When Python looks for garbage: not where much is made that is kept."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

__all__ = ["garbage_waits", "objects_of", "old_objects_stay"]


@contextlib.contextmanager
def garbage_waits() -> Iterator[None]:
    """Keep garbage collection off inside this context, or inside the function that this decorates.

    Importing modules, and describing and rewriting a step, make many objects and hardly any cycles. Each full
    collection that this sets off looks in vain through all there is; on a large graph it takes as long as a kernel.

    Example:
        >>> import gc
        >>> with garbage_waits():
        ...     gc.isenabled()
        False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                # Together these make all objects old. The next two collections would look through all that are young.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextlib.contextmanager
def old_objects_stay() -> Iterator[None]:
    """Keep garbage collection from looking through the objects that exist already, inside this context or function.

    A process with TensorFlow and Keras has so many of them that one full collection takes a fifth of a second, and
    tracing and planning a step make enough objects to set one off. What they leave behind is collected as ever.

    Example:
        >>> import gc
        >>> with old_objects_stay():
        ...     gc.get_freeze_count() > 0
        True
    """
    if gc.get_freeze_count():
        # They are kept out already, by the script or by a call around this one, to whom it is to end this.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def objects_of(cls: type) -> list[Any]:
    """Return all objects of a class, and of those derived from it, that the process has.

    It takes a twentieth of a second in a process with TensorFlow: for messages and other rare needs.

    Args:
        cls: A class whose objects Python's garbage collection knows, as it knows those of classes written in Python.

    Example:
        >>> class Model: ...
        >>> model = Model()
        >>> objects_of(Model) == [model]
        True
    """
    were_kept_out = gc.get_freeze_count() > 0
    gc.unfreeze()  # who is kept out of collections is not listed either
    # Not `isinstance`: an object may say of itself by `__class__`, a property, that it is of another class.
    found = [one for one in gc.get_objects() if issubclass(type(one), cls)]
    if were_kept_out:
        gc.freeze()
    return found
