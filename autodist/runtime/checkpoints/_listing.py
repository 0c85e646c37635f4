"""The file ``checkpoint``, by which TensorFlow finds the newest; what others have listed in it stays listed."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from autodist.documents import whole_file
from autodist.runtime.checkpoints._own_files import OwnFile

LISTING = "checkpoint"


def listed(directory: Path) -> list[str]:
    """The names in the file, without those of other directories; none if it is missing or no such file."""
    if not (directory / LISTING).is_file():
        return []
    state = _state(directory)
    paths = [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
    return list(dict.fromkeys(Path(path).name for path in paths if path and _is_in(path, directory)))


def _state(directory: Path) -> Any:
    from google.protobuf import text_format
    from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

    try:
        return text_format.Parse((directory / LISTING).read_text(encoding="utf-8"), CheckpointState())
    except (OSError, ValueError, text_format.ParseError):
        return CheckpointState()


def _is_in(path: str, directory: Path) -> bool:
    return Path(os.path.abspath(directory / path)).parent == directory


def list_checkpoints(
    directory: Path, own: Sequence[str], known: Collection[str], was: OwnFile | None
) -> OwnFile | None:
    """Write the file again, in one go: those that others have listed and that are still there, and then ours.

    Args:
        directory: Directory of the checkpoints.
        own: Ours, the newest last.
        known: All names that are, or were, of ours.
        was: The file as we have written it the last time.

    Returns:
        The file as it is now, if it is ours.

    Raises:
        OSError: The disk is full, for example.
    """
    path = directory / LISTING
    others = [n for n in listed(directory) if n not in known and n not in own and (directory / f"{n}.index").is_file()]
    names = [*others, *own]
    if not names:
        if was is not None and was.is_at(path):
            path.unlink()
        return None
    text = _text(directory, names)
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text:
        with whole_file(path, to_disk=True) as draft:
            draft.write_text(text, encoding="utf-8")
    return OwnFile.of(path)


def _text(directory: Path, names: Sequence[str]) -> str:
    from google.protobuf import text_format

    state = _state(directory)  # with what else others have noted
    noted = zip(state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps, strict=False)
    known = {Path(path).name: time for path, time in noted}
    times = [known.get(name) or os.stat(directory / f"{name}.index").st_mtime for name in names]
    state.model_checkpoint_path = names[-1]
    state.all_model_checkpoint_paths[:] = names
    state.all_model_checkpoint_timestamps[:] = times
    return str(text_format.MessageToString(state))
