"""Values that are lost: a worker that held variables is gone, and the program's copies of them are empty or old.

These must not be taken for values. So reading such a variable gives an error, also when a model or one of TensorFlow's
checkpoints is saved, until the program assigns a whole value; that goes on when the scope has been left.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autodist.errors import WorkerFailed
from autodist.runtime.state._eager_variables import refill_eager, release_eager
from autodist.runtime.state._handle_access import HandleAccess

_ASSIGNED_WHOLE = ("assign", "_restore_from_tensors")


@dataclass(frozen=True)
class _Lost:
    """A lost variable: the program's handle, kept alive so that its id stays unique, and the error for readers."""

    handle: Any
    dtype: Any
    shape: tuple[int, ...]
    error: WorkerFailed


class _LostValues:
    """The variables of this process whose values are lost."""

    def __init__(self) -> None:
        self._lost: dict[int, _Lost] = {}
        self._is_watching = False

    def add(self, handle: Any, dtype: Any, shape: tuple[int, ...], error: WorkerFailed) -> None:
        """Note that the value of a variable is lost, and let go of what the program has instead.

        Args:
            handle: The program's own.
            dtype: Its type.
            shape: Its shape.
            error: Why, and what to do; see :func:`lost_with`.
        """
        release_eager(handle, dtype)  # for readers that hold the handle itself
        self._lost[id(handle)] = _Lost(handle, dtype, shape, error)

    def check(self, handle: Any) -> None:
        """Check that the program's own value of a variable is not lost.

        Raises:
            WorkerFailed: It is lost.
        """
        if id(handle) in self._lost:
            error = self._lost[id(handle)].error
            raise WorkerFailed(error.message, hint=error.hint)

    @contextlib.contextmanager
    def assigning(self, handle: Any) -> Iterator[None]:
        """Note that a variable gets a whole value inside."""
        lost = self._lost.pop(id(handle), None)
        if lost is not None:
            refill_eager(handle, lost.dtype, lost.shape)  # TensorFlow compares shapes
        try:
            yield
        except BaseException:
            if lost is not None:
                self.add(handle, lost.dtype, lost.shape, lost.error)
            raise

    def watch(self) -> None:
        """Have reads come here from now on, where a scope has been left and anything is lost."""
        if not self._lost:
            return
        from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

        BaseResourceVariable._handle = HandleAccess(self.check)
        if not self._is_watching:
            self._is_watching = True
            _watch_methods(self)


LOST_VALUES = _LostValues()


def lost_with(ranks: Sequence[int], name: str) -> WorkerFailed:
    """The error of reading a variable that only lost workers held."""
    workers = f"worker {ranks[0]}" if len(ranks) == 1 else f"workers {', '.join(map(str, ranks))}"
    return WorkerFailed(
        f"the trained value of `{name}` is lost: {workers} held it, or a part of it, and could not be asked after the "
        "error",
        hint="let the error end the script and start it again (`--max-restarts` does), so that it goes on from its "
        "last checkpoint; or give the variable a value before you read or save it (`load_weights`, "
        "`checkpoint.restore`)",
    )


def _watch_methods(lost: _LostValues) -> None:
    """Intercept methods that give variables whole values, and traced functions, which read variables unseen."""
    from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    def wrapped(original: Any) -> Any:
        @functools.wraps(original)
        def method(variable: Any, *args: Any, **kwargs: Any) -> Any:
            with lost.assigning(variable.__dict__["_handle"]):
                return original(variable, *args, **kwargs)

        return method

    for cls in (BaseResourceVariable, ResourceVariable):  # the subclass has copies of some methods
        for name in _ASSIGNED_WHOLE:
            if name in cls.__dict__:
                setattr(cls, name, wrapped(cls.__dict__[name]))
    call = ConcreteFunction._call_flat

    @functools.wraps(call)
    def checked(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        for given in (*tensor_inputs, *captured_inputs):
            lost.check(getattr(given, "handle", given))
        return call(function, tensor_inputs, captured_inputs)

    ConcreteFunction._call_flat = checked
