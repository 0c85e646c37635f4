"""The program's accesses to variables, noticed while a scope is open; see :class:`StateStore`."""

from __future__ import annotations

import functools
from typing import Any

from autodist.graph import Patches, StepAnalysis
from autodist.runtime.data import captured_resources
from autodist.runtime.state import LOST_VALUES, HandleAccess, StateStore

_WRITES = (
    *("assign", "assign_add", "assign_sub", "batch_scatter_update", "count_up_to"),
    *(f"scatter_{kind}" for kind in ("add", "div", "max", "min", "mul", "sub", "update")),
    *(f"scatter_nd_{kind}" for kind in ("add", "max", "min", "sub", "update")),
    *("_strided_slice_assign", "_restore_from_tensors"),
)


def hook_variables(patches: Patches, state: StateStore) -> None:
    """Keep the program's view of variables current: in ops and methods, traced functions and input pipelines."""
    patches.callback(LOST_VALUES.watch)  # the last to be called, when the rest is as it was
    _hook_handles(patches, state)
    _hook_writes(patches, state)
    _hook_concrete_functions(patches, state)
    _hook_datasets(patches, state)


def _hook_handles(patches: Patches, state: StateStore) -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    def before(handle: Any) -> None:
        name = state.name_of(handle)
        if name is not None and context.executing_eagerly():
            state.before_read(name)
        LOST_VALUES.check(handle)

    BaseResourceVariable._handle = HandleAccess(before)
    patches.callback(delattr, BaseResourceVariable, "_handle")


def _hook_writes(patches: Patches, state: StateStore) -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def method(variable: Any, *args: Any, **kwargs: Any) -> Any:
            name = state.name_of(variable.__dict__.get("_handle")) if context.executing_eagerly() else None
            if name is None:
                return original(variable, *args, **kwargs)
            with state.writing([name]):
                return original(variable, *args, **kwargs)

        return method

    for cls in (BaseResourceVariable, ResourceVariable):  # the subclass has copies of some methods
        for name in _WRITES:
            if name in cls.__dict__:
                patches.replace(cls, name, wrap)


def _hook_concrete_functions(patches: Patches, state: StateStore) -> None:
    """Traced functions read and write variables behind the methods' backs."""
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

    writes = _Writes(state)

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def call_flat(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
            if not context.executing_eagerly() or state.host is None:
                return original(function, tensor_inputs, captured_inputs)
            used = [state.name_of(getattr(t, "handle", t)) for t in (*tensor_inputs, *captured_inputs)]
            names = [name for name in used if name is not None]
            if not names:
                return original(function, tensor_inputs, captured_inputs)
            with state.reading(names), state.writing(writes.of(function, used)):
                return original(function, tensor_inputs, captured_inputs)

        return call_flat

    patches.replace(ConcreteFunction, "_call_flat", wrap)


class _Writes:
    """Which inputs of traced functions are changed by them."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._known: dict[int, tuple[Any, frozenset[int]]] = {}

    def of(self, function: Any, inputs: list[str | None]) -> list[str]:
        """The managed variables among the inputs that the function changes."""
        if id(function) not in self._known:
            self._known[id(function)] = (function, self._positions(function))  # keeps it, so that its id stays its own
        changed = self._known[id(function)][1]
        return [name for k, name in enumerate(inputs) if name is not None and k in changed]

    @staticmethod
    def _positions(function: Any) -> frozenset[int]:
        import tensorflow as tf

        resources = {t.op.name: k for k, t in enumerate(function.graph.inputs) if t.dtype == tf.resource}
        writes = StepAnalysis(function.graph.as_graph_def(), list(resources), ()).writes
        return frozenset(resources[handle] for write in writes.values() for handle in write.handles)


def _hook_datasets(patches: Patches, state: StateStore) -> None:
    """Functions of input pipelines run in TensorFlow's own threads: what they read must be current at all times."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def create_iterator(iterator: Any, dataset: Any) -> Any:
            state.watch(captured_resources(dataset))
            return original(iterator, dataset)

        return create_iterator

    patches.replace(OwnedIterator, "_create_iterator", wrap)
