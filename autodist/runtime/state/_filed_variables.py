"""Large values that the program gives its variables go into files at once; see :data:`FILED_VALUES`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from autodist.runtime.data import FILED_VALUES
from autodist.runtime.state._eager_variables import assign_eager, handle_dtype, read_eager

_GIVEN_WHOLE = ("assign", "_restore_from_tensors")
_FILLED = "_initialize_uninitialized_variables"
_BYTES_AT_ONCE = 32 * 1024 * 1024


def keep_values_in_files() -> None:
    """Have each variable's value go into a file when it is made, assigned or restored, to the end of the process."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    for cls in (BaseResourceVariable, ResourceVariable):  # the subclass has copies of some methods
        for name in _GIVEN_WHOLE:
            _file_after(cls, name)
    _file_after(ResourceVariable, "_init_from_args")
    _fill_few_at_once()


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


def _fill_few_at_once() -> None:
    """Have traced functions that make variables, such as slots, fill a few at a time: all zeros at once are large."""
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    original = Function.__dict__.get(_FILLED)
    if original is None:
        return

    @functools.wraps(original)
    def fill(function: Any, initializers: Sequence[tuple[Any, Any]]) -> None:
        for some in _few_at_once(initializers):
            original(function, some)
            for variable, _ in some:
                _file(variable)

    setattr(Function, _FILLED, fill)


def _few_at_once(initializers: Sequence[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    """Groups of variables with their initial values; those that draw numbers or read others come last, together."""
    found: list[list[tuple[Any, Any]]] = []
    together: list[tuple[Any, Any]] = []
    left_bytes = 0
    for variable, value in initializers:
        if _needs_state(value):
            together.append((variable, value))
            continue
        size = value.dtype.size * (value.shape.num_elements() or 0)
        if not found or size > left_bytes:
            found.append([])
            left_bytes = _BYTES_AT_ONCE
        found[-1].append((variable, value))
        left_bytes -= size
    return [*found, together] if together else found


def _needs_state(value: Any) -> bool:
    """Whether a tensor of a graph draws random numbers or reads variables, so that its value may change."""
    waiting, seen = [value.op], set()
    while waiting:
        operation = waiting.pop()
        if operation.name in seen:
            continue
        seen.add(operation.name)
        if operation.op_def.is_stateful:
            return True
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += operation.control_inputs
    return False
