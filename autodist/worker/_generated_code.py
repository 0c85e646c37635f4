"""AutoGraph writes the functions that it converts into temporary files: those of a killed worker must not stay."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

from autodist.after_import import after_import


def keep_generated_code_in(directory: Path) -> None:
    """Have TensorFlow write the code that it generates into a directory that is removed after the worker."""

    def replace(module: ModuleType) -> None:
        # The module uses nothing else of `tempfile`; its own removal at the interpreter's exit stays.
        opened = functools.partial(tempfile.NamedTemporaryFile, dir=directory)
        module.tempfile = SimpleNamespace(NamedTemporaryFile=opened)  # type: ignore[attr-defined]

    after_import("tensorflow.python.autograph.pyct.loader", replace)
