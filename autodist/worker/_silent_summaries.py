"""Writers of summaries that write nothing, on other workers than the chief.

They take the place of TensorFlow's own in all else: a step that writes summaries is traced alike on all workers, and
what is wrong with a call is told by all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from autodist.after_import import after_import

_NOWHERE = object()
"""Stands for the handle of a writer."""


def silence_summaries() -> None:
    """Have ``tf.summary`` write nothing in this process, whenever the script imports it."""
    after_import("tensorflow.python.ops.gen_summary_ops", _let_nowhere_pass)
    after_import("tensorflow.python.ops.summary_ops_v2", _give_silent_writers)


def _let_nowhere_pass(module: ModuleType) -> None:
    """Have the operators do nothing for writers that write nothing."""
    for name, operator in list(vars(module).items()):
        if inspect.isfunction(operator) and next(iter(inspect.signature(operator).parameters), "") == "writer":
            setattr(module, name, _silent(operator))


def _silent(operator: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operator)
    def silent(writer: Any, *args: Any, **kwargs: Any) -> Any:
        if writer is not _NOWHERE:
            return operator(writer, *args, **kwargs)
        import tensorflow as tf

        return None if tf.executing_eagerly() else tf.no_op()

    return silent


def _give_silent_writers(module: ModuleType) -> None:
    import tensorflow as tf

    class SilentWriter(module.SummaryWriter):  # type: ignore[name-defined]
        """Writes nothing, by the same operators as the chief's writer."""

        _resource = _NOWHERE

        def init(self) -> None:
            pass

        def flush(self) -> Any:
            with tf.device("cpu:0"):
                return module.gen_summary_ops.flush_summary_writer(self._resource)

        def close(self) -> None:
            self.flush()

    @functools.wraps(module.create_file_writer_v2)
    def create_file_writer_v2(*args: Any, **kwargs: Any) -> Any:
        return SilentWriter()

    module.create_file_writer_v2 = create_file_writer_v2  # type: ignore[attr-defined]
