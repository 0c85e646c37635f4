"""Only the chief writes files of models, of checkpoints and of training's course.

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

from autodist.runtime import after_import

__all__ = ["leave_saving_to_chief"]


def leave_saving_to_chief(rank: int) -> None:
    """Make the saving functions of Keras and TensorFlow do nothing in this process, whenever the script imports these.

    Args:
        rank: This worker, for the message; must not be the chief.

    """

    def guard_functions(saving_api: ModuleType) -> None:
        _replace(saving_api, "keras.saving.", ("save_model", "save_weights"), rank)

    def guard_methods(model: ModuleType) -> None:
        _replace(model.Model, "Model.", ("save", "save_weights", "export"), rank)

    def guard_backup(module: ModuleType) -> None:
        _replace(module.BackupAndRestore, "keras.callbacks.BackupAndRestore.", ("_save_model", "on_train_end"), rank)

    def guard_csv(module: ModuleType) -> None:
        _replace(module.CSVLogger, "CSVLogger.", ("on_train_begin", "on_epoch_end", "on_train_end"), rank)

    def guard_monitor(module: ModuleType) -> None:
        _replace(module.RemoteMonitor, "RemoteMonitor.", ("on_epoch_end",), rank)

    def guard_board(module: ModuleType) -> None:
        _replace(
            module.TensorBoard, "TensorBoard.", ("_start_profiler", "_stop_profiler", "_configure_embeddings"), rank
        )

    def guard_saved_models(module: ModuleType) -> None:
        _replace(module, "tf.saved_model.", ("save",), rank)

    def guard_keras2_methods(module: ModuleType) -> None:
        _replace(module.Model, "Model.", ("save", "save_weights", "export"), rank)

    def guard_keras2_callbacks(module: ModuleType) -> None:
        guard_csv(module)
        _replace(module.BackupAndRestore, "tf_keras.callbacks.BackupAndRestore.", ("_backup", "on_train_end"), rank)
        board = ("_start_profiler", "_stop_profiler", "_configure_embeddings", "_write_keras_model_train_graph")
        _replace(module.TensorBoard, "TensorBoard.", board, rank)
        _replace(module.ModelCheckpoint, "ModelCheckpoint.", ("_save_model",), rank)

    # The public names are imported from these modules, so they must be changed here, before anyone copies them.
    after_import("keras.src.saving.saving_api", guard_functions)
    after_import("keras.src.models.model", guard_methods)
    after_import("keras.src.callbacks.backup_and_restore", guard_backup)
    after_import("keras.src.callbacks.csv_logger", guard_csv)
    after_import("keras.src.callbacks.remote_monitor", guard_monitor)
    after_import("keras.src.callbacks.tensorboard", guard_board)
    after_import("tf_keras.src.saving.saving_api", guard_functions)
    after_import("tf_keras.src.engine.training", guard_keras2_methods)
    after_import("tf_keras.src.callbacks", guard_keras2_callbacks)
    after_import("tensorflow.python.saved_model.save", guard_saved_models)
    after_import("tensorflow.python.ops.summary_ops_v2", _guard_summaries)
    after_import("tensorflow.python.checkpoint.checkpoint", lambda module: _guard_checkpoints(module, rank))
    after_import("tensorflow.python.checkpoint.checkpoint_management", _guard_checkpoint_state)


def _guard_summaries(module: ModuleType) -> None:
    """Give writers of summaries that write nothing."""

    @functools.wraps(module.create_file_writer_v2)
    def create_file_writer_v2(*args: Any, **kwargs: Any) -> Any:
        return module.create_noop_writer()

    module.create_file_writer_v2 = create_file_writer_v2  # type: ignore[attr-defined]


def _guard_checkpoints(module: ModuleType, rank: int) -> None:
    """Have ``Checkpoint.save`` and ``write`` count and return the path as on the chief."""
    say = _silent(lambda: None, "tf.train.Checkpoint.write", rank)

    @functools.wraps(module.TrackableSaver.save)
    def save(saver: Any, file_prefix: Any, *args: Any, **kwargs: Any) -> Any:
        say()
        return file_prefix

    module.TrackableSaver.save = save


def _guard_checkpoint_state(module: ModuleType) -> None:
    """Neither write the file that names the newest checkpoint nor delete old ones."""
    module.update_checkpoint_state_internal = lambda *args, **kwargs: None  # type: ignore[attr-defined]
    module._delete_file_if_exists = lambda filespec: None  # type: ignore[attr-defined]


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
