"""Only the chief writes files of models, of checkpoints and of training's course.

Every worker runs the whole script, so each of them comes to ``model.save("digits.keras")``. Several processes writing
one file leave a broken one, and a rank's copy holds nothing that the chief's does not. So on the other ranks saving
says once that it does nothing, and waits until the chief has written: what comes next may be reading the file.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from autodist.after_import import after_import
from autodist.coordination import ChiefFiles, Worker
from autodist.worker._silent_summaries import silence_summaries

_Wrap = Callable[[Callable[..., Any], str], Callable[..., Any]]


def tell_of_saving(worker: Worker) -> None:
    """Have the saving functions of Keras and TensorFlow tell the other workers when they have written."""
    writings = ChiefFiles(worker)

    def telling(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def save(*args: Any, **kwargs: Any) -> Any:
            with writings.telling(label):
                return function(*args, **kwargs)

        return save

    _wrap_saving(telling)
    after_import("tensorflow.python.checkpoint.checkpoint", lambda module: _wrap_checkpoints(module, telling))
    after_import(_MANAGEMENT, lambda module: _wrap_checkpoint_state(module, telling))


def leave_saving_to_chief(worker: Worker) -> None:
    """Make the saving functions of Keras and TensorFlow do nothing in this process, whenever the script imports these.

    Args:
        worker: This worker; must not be the chief.
    """
    writings = ChiefFiles(worker)
    rank = worker.rank

    def waiting(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        return _silent(function, label, rank, lambda: writings.wait(label))

    def guard_csv(module: ModuleType) -> None:
        for name in ("on_train_begin", "on_epoch_end", "on_train_end"):
            _replace(module.CSVLogger, "CSVLogger.", name, lambda f, label: _silent(f, label, rank))

    def guard_monitor(module: ModuleType) -> None:
        _replace(module.RemoteMonitor, "RemoteMonitor.", "on_epoch_end", lambda f, label: _silent(f, label, rank))

    def guard_board(module: ModuleType) -> None:
        for name in ("_start_profiler", "_stop_profiler", "_configure_embeddings"):
            _replace(module.TensorBoard, "TensorBoard.", name, lambda f, label: _silent(f, label, rank))

    def guard_keras2_callbacks(module: ModuleType) -> None:
        guard_csv(module)
        guard_board(module)
        name = "_write_keras_model_train_graph"
        _replace(module.TensorBoard, "TensorBoard.", name, lambda f, label: _silent(f, label, rank))

    def guard_saver(module: ModuleType) -> None:
        _replace(
            module.Saver, "tf.compat.v1.train.Saver.", "export_meta_graph", lambda f, label: _silent(f, label, rank)
        )

    _wrap_saving(waiting)
    after_import("tensorflow.python.training.saver", guard_saver)
    after_import("tensorflow.python.checkpoint.checkpoint", lambda module: _guard_checkpoints(module, waiting))
    after_import("keras.src.callbacks.csv_logger", guard_csv)
    after_import("keras.src.callbacks.remote_monitor", guard_monitor)
    after_import("keras.src.callbacks.tensorboard", guard_board)
    after_import("tf_keras.src.callbacks", guard_keras2_callbacks)
    silence_summaries()
    after_import("tensorflow.python.summary.writer.event_file_writer", _guard_event_files)
    after_import(_MANAGEMENT, lambda module: _wrap_checkpoint_state(module, waiting))
    after_import(_MANAGEMENT, _guard_old_checkpoints)


def _wrap_saving(wrap: _Wrap) -> None:
    """Wrap what writes a file that can be loaded, on all workers the same functions under the same names."""
    for module_name, owner_name, prefix, name in _SAVING:

        def replace(module: ModuleType, owner: str = owner_name, prefix: str = prefix, name: str = name) -> None:
            _replace(getattr(module, owner) if owner else module, prefix, name, wrap)

        # The public names are imported from these modules, so they must be changed here, before anyone copies them.
        after_import(module_name, replace)


def _saving() -> Iterator[tuple[str, str, str, str]]:
    for name in ("save_model", "save_weights"):
        yield "keras.src.saving.saving_api", "", "keras.saving.", name
    for name in ("save", "save_weights", "export"):
        yield "keras.src.models.model", "Model", "Model.", name
    for name in ("_save_model", "on_train_end"):
        yield "keras.src.callbacks.backup_and_restore", "BackupAndRestore", "keras.callbacks.BackupAndRestore.", name
    for name in ("save_model", "save_weights"):
        yield "tf_keras.src.saving.saving_api", "", "keras.saving.", name
    for name in ("save", "save_weights", "export"):
        yield "tf_keras.src.engine.training", "Model", "Model.", name
    for name in ("_backup", "on_train_end"):
        yield "tf_keras.src.callbacks", "BackupAndRestore", "tf_keras.callbacks.BackupAndRestore.", name
    yield "tf_keras.src.callbacks", "ModelCheckpoint", "ModelCheckpoint.", "_save_model"
    yield "tensorflow.python.saved_model.save", "", "tf.saved_model.", "save"
    yield "tensorflow.python.data.ops.dataset_ops", "DatasetV2", "tf.data.Dataset.", "save"


_SAVING = tuple(_saving())


def _guard_event_files(module: ModuleType) -> None:
    """Give `tf.compat.v1.summary.FileWriter` files that don't exist."""

    class EventFileWriter:
        def __init__(self, logdir: Any, *args: Any, **kwargs: Any) -> None:
            self._logdir = str(logdir)

        def get_logdir(self) -> str:
            return self._logdir

        def _nothing(self, event: Any = None) -> None:
            pass

        add_event = reopen = flush = close = _nothing

    module.EventFileWriter = EventFileWriter  # type: ignore[attr-defined]


_CHECKPOINT = "tf.train.Checkpoint.write"
_MANAGEMENT = "tensorflow.python.checkpoint.checkpoint_management"


def _wrap_checkpoints(module: ModuleType, wrap: _Wrap) -> None:
    module.TrackableSaver.save = wrap(module.TrackableSaver.save, _CHECKPOINT)


def _guard_checkpoints(module: ModuleType, wrap: _Wrap) -> None:
    """Have ``Checkpoint.save`` and ``write`` count and return the path as on the chief."""
    wait = wrap(lambda: None, _CHECKPOINT)

    @functools.wraps(module.TrackableSaver.save)
    def save(saver: Any, file_prefix: Any, *args: Any, **kwargs: Any) -> Any:
        wait()
        return file_prefix

    module.TrackableSaver.save = save


def _wrap_checkpoint_state(module: ModuleType, wrap: _Wrap) -> None:
    """Wrap what writes the file that names the newest checkpoint."""
    update = module.update_checkpoint_state_internal
    module.update_checkpoint_state_internal = wrap(update, "tf.train.Checkpoint.save")  # type: ignore[attr-defined]


def _guard_old_checkpoints(module: ModuleType) -> None:
    """Have no old checkpoint deleted by this process."""
    module._delete_file_if_exists = lambda filespec: None  # type: ignore[attr-defined]


def _replace(owner: Any, prefix: str, name: str, wrap: _Wrap) -> None:
    if hasattr(owner, name):
        setattr(owner, name, wrap(getattr(owner, name), prefix + name))


def _silent(
    function: Callable[..., Any], label: str, rank: int, then: Callable[[], None] = lambda: None
) -> Callable[..., None]:
    """Return a function that only says, the first time, that it does nothing, and then does `then`."""
    said = False

    @functools.wraps(function)
    def skip(*args: Any, **kwargs: Any) -> None:
        nonlocal said
        if not said:
            sys.stderr.write(f"`{label}` writes nothing on worker {rank}: the chief (worker 0) writes the file\n")
            said = True
        then()

    return skip
