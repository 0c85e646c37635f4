"""Large values that the program gives its variables go into files at once; see :data:`FILED_VALUES`."""

from __future__ import annotations

import functools
from typing import Any

from autodist.runtime.data import FILED_VALUES
from autodist.runtime.state._eager_variables import assign_eager, handle_dtype, read_eager

__all__ = ["keep_values_in_files"]

_GIVEN_WHOLE = ("assign", "_restore_from_tensors")


def keep_values_in_files() -> None:
    """Have each variable's value go into a file when it is made, assigned or restored, to the end of the process."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    for cls in (BaseResourceVariable, ResourceVariable):  # the subclass has copies of some methods
        for name in _GIVEN_WHOLE:
            _file_after(cls, name)
    _file_after(ResourceVariable, "_init_from_args")


def _file_after(cls: Any, name: str) -> None:
    original = cls.__dict__.get(name)
    if original is None:
        return

    @functools.wraps(original)
    def method(variable: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(variable, *args, **kwargs)
        _file(variable)
        return found

    setattr(cls, name, method)


def _file(variable: Any) -> None:
    from tensorflow.python.framework.ops import EagerTensor

    handle = variable.__dict__.get("_handle")
    if not isinstance(handle, EagerTensor):
        return
    dtype = handle_dtype(handle)
    if dtype.is_numpy_compatible and dtype.size and "CPU" in handle.device:
        value = read_eager(handle, dtype)
        filed = FILED_VALUES.moved(value)
        if filed is not value:
            assign_eager(handle, dtype, filed)
