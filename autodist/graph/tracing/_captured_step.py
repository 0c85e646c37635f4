"""The result of a capture: a traced step, and the names of its variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autodist.errors import FixedRowsError, OtherLengthsError
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.tracing._frozen import FrozenValues
from autodist.graph.tracing._source_lines import SourceLines
from autodist.graph.tracing._summaries import Flush, Summary, write_summaries
from autodist.graph.tracing._tables import Table


class VariableNames:
    """Names of variables, unique over all steps that share them.

    TensorFlow's own names collide (two layers called "same" both own "same/kernel"), so a second variable of a name
    gets a number. The numbers follow the order of capture, which is the same on every worker.

    Attributes:
        frozen: The large values that the steps take from outside.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._handles: dict[str, Any] = {}
        self.frozen = FrozenValues()

    def name(self, handle: Any, wanted: str) -> str:
        """The name of the variable with this (eager) handle."""
        if id(handle) not in self._names:
            name, number = wanted, 1
            while name in self._handles:
                name, number = f"{wanted}#{number}", number + 1
            self._names[id(handle)] = name
            self._handles[name] = handle  # keeps the handle alive, so that its id stays its own
        return self._names[id(handle)]


@dataclass(frozen=True)
class ServedLengths:
    """The lengths of sequences that one trace serves, if it is rewritten alike for all that it is described for.

    Attributes:
        graphs: The step as described for other lengths.
        dims: By length, the arguments and their dims that have it.
        least: By length, the shortest.
        most: By length, the longest.
    """

    graphs: tuple[TrainingGraph, ...]
    dims: tuple[tuple[tuple[int, int], ...], ...]
    least: tuple[int, ...]
    most: tuple[int, ...]

    def check(self, shapes: Sequence[Sequence[int]]) -> None:
        """Check that it serves arguments of these shapes.

        Raises:
            OtherLengthsError: It does not.

        Example:
            >>> ServedLengths((), (((0, 1),),), least=(2,), most=(11,)).check([(8, 11)])
        """
        sizes = [{shapes[argument][dim] for argument, dim in dims} for dims in self.dims]
        ranges = zip(sizes, self.least, self.most, strict=True)
        if not all(len(found) == 1 and least <= min(found) <= most for found, least, most in ranges):
            given = ", ".join(" and ".join(map(str, sorted(found))) for found in sizes)
            least, most = (", ".join(map(str, ends)) for ends in (self.least, self.most))
            raise OtherLengthsError(
                f"the lengths are {given}, the step is known to be shared alike for lengths from {least} to {most}"
            )


@dataclass(frozen=True)
class CapturedStep:
    """A training step, traced.

    Attributes:
        graph: The step as G.
        handles: By variable name, the eager resource handle of the program's own variable.
        structure: The structure that the step returns, with graph tensors as its leaves.
        concrete: The traced function, kept alive because the handles belong to it.
        trace_s: The part of the capture that TensorFlow's tracing took.
        asking: The user's lines that have asked in Python for the number of rows and got None, where one device would
            get a number and trace a different step.
        tables: The lookup tables that it reads.
        reason: Why it was traced for one number of rows; None if it was for any.
        summaries: The summaries that it writes, for which it returns tensors after those of `structure`.
        lengths: The lengths of its arguments that it was traced for; None if these have the shapes of its inputs, or
            any on one device.
    """

    graph: TrainingGraph
    handles: dict[str, Any]
    structure: Any
    concrete: Any
    trace_s: float = field(default=0.0, compare=False)
    asking: tuple[str, ...] = field(default=(), compare=False)
    tables: tuple[Table, ...] = field(default=(), compare=False)
    summaries: tuple[Summary | Flush, ...] = field(default=(), compare=False)
    reason: FixedRowsError | None = field(default=None, compare=False)
    lengths: ServedLengths | None = field(default=None, compare=False)

    @property
    def is_tried(self) -> bool:
        """Whether the step is traced in another way if it can't be compiled as it was traced."""
        return self.lengths is not None or self.graph.shares_examples

    def with_batch_size(self, rows: int | None) -> CapturedStep:
        """The same step, captured for a batch of this many examples."""
        graph, lengths = self.graph.with_batch_size(rows), self.lengths
        if lengths is not None:
            lengths = replace(lengths, graphs=tuple(other.with_batch_size(rows) for other in lengths.graphs))
        return replace(self, graph=graph, lengths=lengths)

    def check_lengths(self, shapes: Sequence[Sequence[int]]) -> None:
        """Check that it serves arguments of these shapes, if it was traced for many lengths.

        Raises:
            OtherLengthsError: It does not.
        """
        if self.lengths is not None:
            self.lengths.check(shapes)

    def line_of(self, name: str) -> str:
        """``file:line`` of the user's code that a node comes from."""
        return SourceLines(self.concrete.graph).of(name)

    def pack(self, values: Sequence[Any]) -> Any:
        """`values`, one per output tensor, in the structure that the step returns; those of summaries are left out."""
        import tensorflow as tf

        remaining = iter(values)
        flat = tf.nest.flatten(self.structure, expand_composites=True)
        filled = [next(remaining) if tf.is_tensor(leaf) else leaf for leaf in flat]
        return tf.nest.pack_sequence_as(self.structure, filled, expand_composites=True)

    def write_summaries(self, values: Sequence[Any]) -> None:
        """Write the summaries of a step that has returned these values, one per output tensor."""
        if self.summaries:
            count = sum(summary.num_tensors for summary in self.summaries)
            write_summaries(self.summaries, values[len(values) - count :])
