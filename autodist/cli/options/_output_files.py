"""Files that a command writes when its work is done: what is wrong with them is said before it begins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from autodist.errors import UsageError

_ANOTHER = "give another file by `--out`"


def check_output(out: str | None, suffix: str | None, option: str = "--out") -> Path | None:
    """Return where an option's file goes; None if it is not given.

    Args:
        out: The option's value.
        suffix: What its name must end in: other commands know it by that, and a script is not overwritten by mistake.
            None for any name.
        option: The option's name.

    Raises:
        UsageError: It can't be written there.
    """
    if out is None:
        return None
    path = Path(out)
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    mistakes = []
    if suffix is not None and path.suffix != suffix:
        mistakes.append(f"`{option} {out}`: the file's name must end in `{suffix}`")
    if path.is_dir():
        mistakes.append(f"`{option} {out}` is a directory, it must be a file")
    elif not parent.is_dir():
        mistakes.append(f"`{option} {out}`: `{parent}` is not a directory")
    elif not os.access(parent, os.W_OK):
        mistakes.append(f"`{option} {out}`: nothing can be written in `{parent}`")
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return path


def make_directory_of(path: Path, hint: str = _ANOTHER) -> None:
    """Make the directories that a file needs.

    Raises:
        UsageError: That is not possible.
    """
    with _told(path, hint):
        path.parent.mkdir(parents=True, exist_ok=True)


def write_output(path: Path, text: str, hint: str = _ANOTHER) -> None:
    """Write a file as a whole, with the directories that it needs.

    Raises:
        UsageError: That is not possible.
    """
    from autodist.documents import whole_file

    make_directory_of(path, hint)
    with _told(path, hint), whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def written(path: Path, text: str, hint: str = _ANOTHER) -> Iterator[Path | None]:
    """Write a file, and let the rest of a long work's result be shown before an error of that ends the command.

    Yields:
        The path; None if the file can't be written, as where a disk has become full meanwhile.

    Raises:
        UsageError: The file can't be written; after what is done in the context.
    """
    failure = None
    try:
        write_output(path, text, hint)
    except UsageError as error:
        failure = error
    yield path if failure is None else None
    if failure is not None:
        raise failure


@contextlib.contextmanager
def _told(path: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"`{path}` can't be written: {error.strerror}", hint=hint) from error
