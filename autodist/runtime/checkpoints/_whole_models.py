"""Saved models are whole: written next to what was there before, and put in its place by one rename.

Whenever the process or the machine dies, the file or directory holds what it held before, or the new model: it is
forced to the disk before the rename, and the rename after it. What is left of the new one besides is a
`.autodist-unfinished-...`, over which the next one is written. Two processes that save the same model at once don't
write into one file: the one that ends later has the last word.

On a file system that can't exchange two directories, there is no directory of the name for a moment. If the process
dies then, the old one is left as `.autodist-previous-...`; the next save puts it back before it begins.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import inspect
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from autodist.documents import to_disk, tree_to_disk

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MARK = "_autodist_whole"


def save_models_whole() -> None:
    """From now on have Keras and TensorFlow save models whole. Imports both."""
    from keras.src.legacy.saving import legacy_h5_format
    from keras.src.saving import saving_lib
    from tensorflow.python.saved_model import save

    _wrap(
        saving_lib,
        "save_model",
        "filepath",
        lambda zipped=True, **_: whole_model if zipped else whole_model_folder,
    )
    _wrap(saving_lib, "save_weights_only", "filepath", lambda max_shard_size=None, **_: _of_weights(max_shard_size))
    _wrap(legacy_h5_format, "save_model_to_hdf5", "filepath", lambda **_: whole_model)
    _wrap(save, "save_and_return_nodes", "export_dir", lambda **_: whole_model_folder)


_Way = Callable[[Any], AbstractContextManager[Any]]


def _of_weights(max_shard_size: Any) -> _Way:
    return whole_model if max_shard_size is None else contextlib.nullcontext  # shards are several files, as they were


def _wrap(module: Any, name: str, parameter: str, way: Callable[..., _Way]) -> None:
    original = getattr(module, name)
    if hasattr(original, _MARK):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        path = bound.arguments[parameter]
        if not isinstance(path, str | os.PathLike) or "://" in os.fspath(path):
            return original(*args, **kwargs)
        with way(**bound.arguments)(path) as beside:
            bound.arguments[parameter] = beside
            return original(*bound.args, **bound.kwargs)

    setattr(save, _MARK, True)
    setattr(module, name, save)


@contextlib.contextmanager
def whole_model(path: str | os.PathLike[str]) -> Iterator[str]:
    """A path to write to inside; afterwards the file is that of `path`, unless an error has come.

    Args:
        path: The file. Devices, pipes, and files in a directory that can't be written, are written as they are.
    """
    target = Path(os.path.realpath(path))
    if (target.exists() and not target.is_file()) or not os.access(target.parent, os.W_OK):
        yield os.fspath(path)
        return
    with _beside(target) as unfinished:
        try:
            yield str(unfinished)
            if target.exists():
                shutil.copymode(target, unfinished)
            to_disk(unfinished)
            unfinished.replace(target)
            to_disk(target.parent)
        finally:
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_model_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """A path to write a directory to inside; afterwards it is that of `path`, unless an error has come.

    What else was in the directory before stays in it.

    Args:
        path: The directory. One that can't be renamed, a mount point or one that the process works in, is written as
            it is.
    """
    target = Path(os.path.realpath(path))
    if target.is_mount() or Path.cwd().is_relative_to(target) or not target.parent.is_dir():
        yield os.fspath(path)
        return
    with _beside(target) as unfinished:
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that died
        try:
            yield str(unfinished)
            _keep_others(target, unfinished)
            tree_to_disk(unfinished)
            _put(unfinished, target)
            to_disk(target.parent)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Where a model is until it is whole: a fixed name, so that none is left twice, unless others save there."""
    with contextlib.ExitStack() as stack:
        is_alone = _is_alone(target.parent, stack)
        if is_alone:
            _put_back(target)
        yield _hidden(target, "unfinished", is_only=is_alone)


def _hidden(target: Path, kind: str, *, is_only: bool = True) -> Path:
    """A path next to `target` that is AutoDist's by its name; if it is not the only one, one that nobody else has."""
    token = "" if is_only else f"{secrets.token_hex(4)}-"
    return target.with_name(f".autodist-{kind}-{token}{target.name}")


def _put_back(target: Path) -> None:
    """Give a directory its name again if a process died after it had moved the directory away to replace it."""
    previous = _hidden(target, "previous")
    if previous.is_dir() and not target.exists():
        previous.rename(target)


def _is_alone(directory: Path, stack: contextlib.ExitStack) -> bool:
    """Whether nobody else saves a model in a directory at the moment; others find out that somebody does."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # where directories can't be locked, nobody can be told
        return error.errno != errno.EWOULDBLOCK
    return True


def _keep_others(old: Path, new: Path) -> None:
    """Link what only the old directory has into the new one, also what it has in folders that both have."""
    for entry in old.iterdir() if old.is_dir() else ():
        kept = new / entry.name
        is_folder = entry.is_dir() and not entry.is_symlink()
        if is_folder and kept.is_dir() and not kept.is_symlink():
            _keep_others(entry, kept)
        elif kept.exists():
            continue
        elif is_folder:
            shutil.copytree(entry, kept, symlinks=True, copy_function=_link)
        else:
            _link(entry, kept)


def _link(old: str | Path, new: str | Path) -> None:
    """Link a file, or copy it: not every file system has links, and not every file may be linked by everybody."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _put(new: Path, target: Path) -> None:
    """Have `target` be the new directory; where it was one before, the old one is `new` then."""
    if not target.exists():
        new.rename(target)
    elif not _exchange(new, target):
        previous = _hidden(target, "previous")
        if previous.exists():  # of a process that died, or of another one that saves now: it may be all there is
            previous = _hidden(target, "previous", is_only=False)
        target.rename(previous)  # a file system that can't exchange them: for a moment there is none of this name
        try:
            new.rename(target)
        except BaseException:
            previous.rename(target)
            raise
        shutil.rmtree(previous)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories at once; whether the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    names = (ctypes.c_char_p(os.fsencode(one)), ctypes.c_char_p(os.fsencode(other)))
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0)
