"""Programs of arrays with a loop whose turns depend on data: each turn is a program that replicas share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from autodist.graph import CapturedStep, LoopSegments

Dims: TypeAlias = tuple[int | None, ...]
"""Per array among the arguments, the dim that is cut; None for one that comes whole to every replica."""


class Segments(Protocol):
    """Runs the segments of programs; these may have loops themselves."""

    def run_segment(self, segment: Callable[..., Any], arrays: Sequence[Any], dims: Dims | None, whole: Any) -> Any:
        """Run a segment as a program of its own, by `whole` if replicas can't share it."""

    def pays(self, segment: Callable[..., Any], arrays: Sequence[Any], dims: Dims | None) -> bool:
        """Whether it pays to run a segment as a program of its own."""


class LoopedProgram:
    """A program that is run in segments: before its loop, turn by turn, and behind it.

    Args:
        captured: The program.
        segments: Its segments.
        programs: Runs these.
        ends_anywhere: Whether any worker says that the loop ends: hosts may round otherwise, and must have equally many
            turns. It is given what this worker says, and where it is in words.
    """

    def __init__(
        self,
        captured: CapturedStep,
        segments: LoopSegments,
        programs: Segments,
        ends_anywhere: Callable[[bool, str], bool],
    ) -> None:
        self._captured = captured
        self._segments = segments
        self._programs = programs
        self._ends_anywhere = ends_anywhere
        self._pays: bool | None = None
        self._plain: dict[Callable[..., Any], Any] = {}
        """By segment, the function that runs it whole: it is traced once."""

    def run(self, arrays: Sequence[Any], dims: Dims | None) -> tuple[Any] | None:
        """The results of a call; None if it is better run whole, which the first turn shows.

        Args:
            arrays: The program's arguments.
            dims: Per argument, the dim that is cut, None for whole; None to find out.
        """
        segments = self._segments
        *computed, goes_on = self._run(segments.before, arrays, dims)
        left = iter(computed)
        values = [next(left) if place is None else arrays[place] for place in segments.given]
        given = None if dims is None else tuple(None if k is None else dims[k] for k in segments.given)
        while self._goes_on(goes_on):
            *changed, goes_on = self._run(segments.turn, values, given)
            if self._pays is None:
                self._pays = self._programs.pays(segments.turn, values, given)
            if not self._pays:
                return None
            for k, value in zip(segments.changed, changed, strict=True):
                values[k] = value
        ends = [values[k] for k in segments.ends]
        behind = None if dims is None else (*dims, *(None,) * len(ends))
        return (self._captured.pack(self._run(segments.behind, [*arrays, *ends], behind)),)

    def _run(self, segment: Callable[..., Any], arrays: Sequence[Any], dims: Dims | None) -> Any:
        import tensorflow as tf

        if segment not in self._plain:
            self._plain[segment] = tf.function(segment)
        return self._programs.run_segment(segment, arrays, dims, self._plain[segment])

    def _goes_on(self, goes_on: Any) -> bool:
        return not self._ends_anywhere(not bool(goes_on), "is at a turn of a loop")
