"""Only the chief writes Keras files.

Every worker runs the whole script, so each of them comes to ``model.save("digits.keras")``. Several processes writing
one file leave a broken one, and a rank's copy holds nothing that the chief's does not. So on the other ranks saving
does nothing and says so once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from autodist.launch._after_import import after_import

__all__ = ["leave_saving_to_chief"]


def leave_saving_to_chief(rank: int) -> None:
    """Make Keras' saving functions do nothing in this process, whenever the script imports Keras.

    Args:
        rank: This worker, for the message; must not be the chief.

    """

    def guard_functions(saving_api: ModuleType) -> None:
        _replace(saving_api, "keras.saving.", ("save_model", "save_weights"), rank)

    def guard_methods(model: ModuleType) -> None:
        _replace(model.Model, "Model.", ("save", "save_weights", "export"), rank)

    def guard_backup(module: ModuleType) -> None:
        _replace(module.BackupAndRestore, "keras.callbacks.BackupAndRestore.", ("_save_model", "on_train_end"), rank)

    # The public names are imported from these two modules, so they must be changed here, before anyone copies them.
    after_import("keras.src.saving.saving_api", guard_functions)
    after_import("keras.src.models.model", guard_methods)
    after_import("keras.src.callbacks.backup_and_restore", guard_backup)


def _replace(owner: Any, prefix: str, names: tuple[str, ...], rank: int) -> None:
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, _silent(getattr(owner, name), prefix + name, rank))


def _silent(function: Callable[..., Any], label: str, rank: int) -> Callable[..., None]:
    """Return a function that only says, the first time, that it does nothing."""
    said = False

    @functools.wraps(function)
    def skip(*args: Any, **kwargs: Any) -> None:
        nonlocal said
        if not said:
            sys.stderr.write(f"`{label}` writes nothing on worker {rank}: the chief (worker 0) writes the file\n")
            said = True

    return skip
