"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from autodist.documents import _disk


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], *, to_disk: bool = False) -> Iterator[Path]:
    """Where to write a file's content: at the end it takes the file's place at once, after an error it is gone.

    Args:
        path: The file.
        to_disk: Whether it is to outlive the machine's own end: the new content, or else the old one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/a.txt") as draft:
        ...         _ = draft.write_text("all of it")
        ...     os.listdir(folder)
        ['a.txt']
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        if to_disk:
            _disk.to_disk(draft)
        draft.replace(target)
        if to_disk:
            _disk.to_disk(target.parent)
    finally:
        draft.unlink(missing_ok=True)
