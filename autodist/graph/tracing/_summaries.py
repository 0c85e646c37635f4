"""Summaries that a step writes: it returns what is to be written, and the chief writes it after the step.

A writer belongs to TensorFlow's eager runtime, which the rewritten step can't reach. And replicas would write the same
several times.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph._attribute_patches import Patches


@dataclass(frozen=True)
class Summary:
    """One summary that a step writes.

    Attributes:
        writer: The handle of TensorFlow's writer.
        tag: Its name.
        metadata: What tells TensorBoard how to show it, as TensorFlow serializes that.
        is_conditional: Whether the step says each time if it is to be written.
    """

    writer: Any
    tag: Any
    metadata: Any
    is_conditional: bool

    @property
    def num_tensors(self) -> int:
        """How many tensors the step returns for it: its step, its value and perhaps its condition."""
        return 3 if self.is_conditional else 2

    def write(self, step: Any, value: Any, condition: Any = True) -> None:
        """Write it.

        Args:
            step: The number by which TensorBoard orders values.
            value: The value.
            condition: Whether to.
        """
        import tensorflow as tf

        if condition:
            tf.raw_ops.WriteSummary(
                writer=self.writer, step=step, tensor=value, tag=self.tag, summary_metadata=self.metadata
            )


@dataclass(frozen=True)
class Flush:
    """The end of a step's ``with writer.as_default()``, where what was written goes to the file.

    Attributes:
        writer: The handle of TensorFlow's writer.
    """

    writer: Any
    num_tensors: int = 0

    def write(self) -> None:
        """Have the writer do so."""
        import tensorflow as tf

        tf.raw_ops.FlushSummaryWriter(writer=self.writer)


class Summaries:
    """The summaries that a step writes, found while it is traced.

    Attributes:
        found: They, in the order in which the step would write them.
    """

    def __init__(self) -> None:
        self.found: list[Summary | Flush] = []
        self._tensors: list[Any] = []
        self._graph: Any = None
        self._condition: Any = None

    def returned_by(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`step` as a function that also returns what is to be written, if it writes summaries."""

        def returning(*tensors: Any) -> Any:
            self._begin()
            return self._beside(step(*tensors))

        # TensorFlow names what is fed by the names of arguments.
        returning.__signature__ = inspect.signature(step)  # type: ignore[attr-defined]
        return returning

    def result(self, structure: Any) -> Any:
        """Take what the step itself returns out of what the function of :meth:`returned_by` does."""
        return structure[0] if self.found else structure

    def _begin(self) -> None:
        """Forget what was found before: TensorFlow traces a function twice if it makes variables."""
        import tensorflow as tf

        self.found.clear()
        self._tensors.clear()
        self._condition = None
        self._graph = tf.compat.v1.get_default_graph()

    def _beside(self, result: Any) -> Any:
        return (result, list(self._tensors)) if self.found else result

    def is_of_step(self) -> bool:
        """Whether the code that runs belongs to the step itself, not to a function, a branch or a loop in it."""
        import tensorflow as tf

        return self._graph is not None and tf.compat.v1.get_default_graph() is self._graph

    def conditioned(self, condition: Any) -> Any:
        """Note the condition of what is written next; the step always returns its value."""
        from tensorflow.python.framework.smart_cond import smart_constant_value

        known = smart_constant_value(condition)
        self._condition = condition if known is None else None
        return True if known is None else bool(known)

    def add(self, writer: Any, step: Any, value: Any, tag: Any, metadata: Any) -> Any:
        """Note a summary in place of writing it; the arguments are as for TensorFlow's operator."""
        import tensorflow as tf

        self.found.append(Summary(writer, tag, metadata, self._condition is not None))
        self._tensors += [tf.cast(step, tf.int64), tf.identity(value)]
        self._tensors += [] if self._condition is None else [tf.identity(self._condition)]
        return tf.no_op()

    def flush(self, writer: Any) -> Any:
        """Note that a writer is to be flushed, in place of flushing it."""
        import tensorflow as tf

        self.found.append(Flush(writer))
        return tf.no_op()


@contextlib.contextmanager
def returning_summaries(summaries: Summaries) -> Iterator[None]:
    """Have a step that is traced inside return its summaries instead of writing them."""
    from tensorflow.python.ops import gen_summary_ops, summary_ops_v2

    def noted(original: Any) -> Any:
        def write_summary(
            writer: Any, step: Any, tensor: Any, tag: Any, summary_metadata: Any, name: str | None = None
        ) -> Any:
            if not summaries.is_of_step():
                return original(writer, step, tensor, tag, summary_metadata, name)
            return summaries.add(writer, step, tensor, tag, summary_metadata)

        return write_summary

    def flushed(original: Any) -> Any:
        def flush_summary_writer(writer: Any, name: str | None = None) -> Any:
            return summaries.flush(writer) if summaries.is_of_step() else original(writer, name)

        return flush_summary_writer

    def conditioned(original: Any) -> Any:
        def should_record_summaries() -> Any:
            return summaries.conditioned(original()) if summaries.is_of_step() else original()

        return should_record_summaries

    with Patches() as patches:
        patches.replace(gen_summary_ops, "write_summary", noted)
        patches.replace(gen_summary_ops, "flush_summary_writer", flushed)
        patches.replace(summary_ops_v2, "should_record_summaries", conditioned)
        yield


def write_summaries(summaries: Sequence[Summary | Flush], values: Sequence[Any]) -> None:
    """Write the summaries of a step.

    Args:
        summaries: They, and when to flush.
        values: What the step has returned for them.
    """
    remaining = iter(values)
    for summary in summaries:
        summary.write(*(next(remaining) for _ in range(summary.num_tensors)))
