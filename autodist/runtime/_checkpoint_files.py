"""The files of checkpoints: written whole or not at all, and only the newest are kept."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autodist.errors import UsageError
from autodist.runtime._writings import own_writing

__all__ = ["CheckpointFiles"]

_LOG = logging.getLogger("autodist")
_NAME = re.compile(r"ckpt-(\d+)\.(index|data-.*)")
_UNFINISHED = ".unfinished"
_POSITION = "position/.ATTRIBUTES/VARIABLE_VALUE"


class CheckpointFiles:
    """Checkpoints in a directory, as ``tf.train.CheckpointManager`` lays them out; used by the chief alone.

    A checkpoint is written beside the others, forced to the disk, and renamed: whenever the process or the machine
    dies, the directory holds the checkpoints that it held before, or one more.

    Args:
        directory: Made when something is written.
        keep: How many checkpoints to keep.
    """

    def __init__(self, directory: Path, keep: int) -> None:
        self._directory = directory
        self._keep = keep

    def readable(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The path and the position of each checkpoint that can be read, the newest first."""
        for number in reversed(self._listed()):
            prefix = self._prefix(number)
            try:
                yield prefix, _read_position(prefix)
            except Exception as error:  # of a damaged file TensorFlow speaks in errors of every kind
                _LOG.warning("the checkpoint `%s` can't be read, an older one is taken: %s", prefix, error)

    def write(self, root: Any, number: int) -> None:
        """Write the checkpoint with this number, which rises from one to the next.

        Raises:
            UsageError: The directory can't be written.
        """
        import tensorflow as tf

        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            older = [n for n in self._listed() if n < number]  # others are of a past that a restart has given up
            self._list(older)
            self._remove_all_but(older)
            self._write(root, number)
            kept = [*older, number][-self._keep :]
            self._list(kept)
            self._remove_all_but(kept)
        except (OSError, tf.errors.OpError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise UsageError(
                f"a checkpoint can't be written into `{self._directory}`: {reason or error}",
                hint="name a directory on a disk with space, in which you may write",
            ) from error

    def remove(self) -> None:
        """Remove all checkpoints, and the directory if nothing else is in it."""
        if not self._directory.is_dir():
            return
        (self._directory / "checkpoint").unlink(missing_ok=True)
        self._remove_all_but([])
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _write(self, root: Any, number: int) -> None:
        unfinished = self._directory / _UNFINISHED
        unfinished.mkdir()
        with own_writing():
            root.write(str(unfinished / f"ckpt-{number}"))
        # The index last: with it the checkpoint is there.
        files = sorted(unfinished.iterdir(), key=lambda path: path.suffix == ".index")
        for path in files:
            _to_disk(path)
        for path in files:
            path.rename(self._directory / path.name)
        unfinished.rmdir()
        _to_disk(self._directory)

    def _prefix(self, number: int) -> str:
        return str(self._directory / f"ckpt-{number}")

    def _listed(self) -> list[int]:
        """The numbers of the checkpoints that are there, in order."""
        import tensorflow as tf

        state = tf.train.get_checkpoint_state(str(self._directory))
        paths = state.all_model_checkpoint_paths if state is not None else ()
        found = [_NAME.fullmatch(f"{Path(path).name}.index") for path in paths]
        numbers = sorted({int(match[1]) for match in found if match is not None})
        return [n for n in numbers if Path(f"{self._prefix(n)}.index").is_file()]

    def _list(self, numbers: Sequence[int]) -> None:
        """Write the file that names the checkpoints, in one go."""
        from tensorflow.python.checkpoint.checkpoint_management import update_checkpoint_state_internal

        if numbers == self._listed():
            return
        paths = [self._prefix(number) for number in numbers]
        if not paths:
            (self._directory / "checkpoint").unlink(missing_ok=True)
            return
        with own_writing():
            update_checkpoint_state_internal(
                str(self._directory),
                paths[-1],
                all_model_checkpoint_paths=paths,
                save_relative_paths=True,
                all_model_checkpoint_timestamps=[os.stat(f"{path}.index").st_mtime for path in paths],
            )
        _to_disk(self._directory / "checkpoint")
        _to_disk(self._directory)

    def _remove_all_but(self, numbers: Sequence[int]) -> None:
        """Remove what is in no list any more, and what a killed process has left."""
        shutil.rmtree(self._directory / _UNFINISHED, ignore_errors=True)
        for path in self._directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None and int(match[1]) not in numbers:
                path.unlink(missing_ok=True)


def _read_position(prefix: str) -> dict[str, Any]:
    """The position in a checkpoint; reads all of it, so that what a disk has lost is noticed here."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    position: dict[str, Any] = json.loads(reader.get_tensor(_POSITION))
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)
    return position


def _to_disk(path: Path) -> None:
    """Have the kernel write a file or a directory's entries, so that they outlive the machine's own end."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
