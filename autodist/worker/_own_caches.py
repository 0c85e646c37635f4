"""Each worker caches its input in files of its own.

All workers run ``dataset.cache("elements")`` and ``dataset.snapshot("elements")``; two processes that write one cache
end with an error, or with a broken one.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from autodist.after_import import after_import


def keep_caches_apart(rank: int) -> None:
    """Have what this process caches go to files next to those that the script names.

    Args:
        rank: This worker; must not be the chief, which takes the script's names.
    """

    def replace(module: ModuleType) -> None:
        for method, parameter in (("cache", "filename"), ("snapshot", "path")):
            setattr(module.DatasetV2, method, _renaming(getattr(module.DatasetV2, method), parameter, rank))

    after_import("tensorflow.python.data.ops.dataset_ops", replace)


def _renaming(original: Any, parameter: str, rank: int) -> Any:
    @functools.wraps(original)
    def method(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (_own(args[0], rank), *args[1:])
        elif parameter in kwargs:
            kwargs[parameter] = _own(kwargs[parameter], rank)
        return original(dataset, *args, **kwargs)

    return method


def _own(path: Any, rank: int) -> Any:
    is_path = isinstance(path, str | os.PathLike) and os.fspath(path)
    return f"{os.fspath(path)}.worker{rank}" if is_path else path
