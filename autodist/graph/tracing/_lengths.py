"""Lengths: a step that is traced once for batches of all lengths, and described for some of them.

How replicas share a step is found out by the sizes of all dims but that of the batch. A step whose sequences have any
length is described for three lengths, as if it had been traced for each. What is rewritten alike for all of them is
right for the lengths between, if it does not depend on what divides a length: a reshape may mix examples where a length
is odd, and pooling rounds it up. So one of the three has many divisors, the longest is prime, and whatever small number
both are divided by, they leave other rests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autodist.errors import CaptureError
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.tracing._captured_step import CapturedStep, ServedLengths

Shapes: TypeAlias = tuple[tuple[int | None, ...] | None, ...]

_SHORT = (2, 3, 5, 7, 11)
_DIVIDED = (60, 24, 12)
"""Multiples of these have many divisors."""
_LONGER = (8.0, 3.0, 1.5, 1.0, 0.6)
"""How many times as long as those of the call, one after the other until they fit."""
_LONGEST_PERIOD = 12


@dataclass(frozen=True)
class Lengths:
    """The sizes of a call's open dims; those of one size are taken for one length.

    Attributes:
        shapes: The shapes of the call's arguments.
        dims: By length, the arguments and their dims that have it.
        sizes: By length, how long it is in the call.
    """

    shapes: tuple[tuple[int, ...], ...]
    dims: tuple[tuple[tuple[int, int], ...], ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, shapes: Sequence[Sequence[int]], open_dims: Sequence[Sequence[int]]) -> Lengths:
        """The lengths of a call.

        Args:
            shapes: The shapes of its arguments.
            open_dims: Per argument, the dims that may have any size, but for the rows of a batch.

        Example:
            >>> Lengths.of([(8, 5), (8, 5, 3), (8, 7)], [(1,), (1,), (1,)]).sizes
            (5, 7)
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for argument, dims in enumerate(open_dims):
            for dim in dims:
                found.setdefault(shapes[argument][dim], []).append((argument, dim))
        return cls(tuple(map(tuple, shapes)), tuple(map(tuple, found.values())), tuple(found))

    def described(self, describe: Callable[[Shapes], CapturedStep], split: Sequence[bool]) -> CapturedStep:
        """A step as described for the lengths of the call, and for others.

        Args:
            describe: Describes it for arguments of some shapes, whose rows are open where they are split.
            split: Per argument, whether its dim 0 is the batch.

        Raises:
            CaptureError: It can't be described for lengths.
        """
        own: CapturedStep | None = None
        for divided in self._divided():
            try:
                own = describe(self._with(divided, split))
            except CaptureError:
                raise
            except ValueError:  # TensorFlow refuses shapes that don't fit each other
                continue
            most, longer = self._first(describe, own, (self._primes(times, divided) for times in _LONGER), split)
            if most is not None and longer is not None:
                least, shorter = self._first(describe, own, self._shorter(), split)
                others = (longer,) if shorter is None else (longer, shorter)
                lowest = tuple(map(min, divided, most)) if least is None else least
                lengths = ServedLengths(others, self.dims, lowest, tuple(map(max, divided, most)))
                lengths.check(self.shapes)
                return replace(own, lengths=lengths)
        raise CaptureError("it can't be described for other lengths")

    def _first(
        self,
        describe: Callable[[Shapes], CapturedStep],
        own: CapturedStep,
        wanted: Iterable[tuple[int, ...]],
        split: Sequence[bool],
    ) -> tuple[tuple[int, ...] | None, TrainingGraph | None]:
        """The first of some lengths for which a step can be described without dims that vanish, and that step."""
        others = _sizes_of(own.graph)
        # Where a length is that of another dim by chance, more may look alike than is, and less be found to be.
        for sizes in sorted(wanted, key=lambda sizes: not others.isdisjoint(sizes)):
            try:
                found = describe(self._with(sizes, split)).graph
            except ValueError:  # a CaptureError is one
                continue
            if _is_of_a_kind(found, own.graph):
                return sizes, found
        return None, None

    def _with(self, sizes: Sequence[int], split: Sequence[bool]) -> Shapes:
        shapes: list[list[int | None]] = [list(shape) for shape in self.shapes]
        for size, dims in zip(sizes, self.dims, strict=True):
            for argument, dim in dims:
                shapes[argument][dim] = size
        return tuple(
            (None, *shape[1:]) if is_split else tuple(shape) for shape, is_split in zip(shapes, split, strict=True)
        )

    def _shorter(self) -> Iterator[tuple[int, ...]]:
        for size in _SHORT:
            yield tuple(range(size, size + len(self.sizes)))

    def _divided(self) -> Iterator[tuple[int, ...]]:
        """Lengths with many divisors, unlike each other, up to those of the call where these are long enough."""
        for factor in _DIVIDED:
            found: list[int] = []
            for size in self.sizes:
                number = factor * max(1, size // factor)
                found.append(next(n for n in itertools.count(number, factor) if n not in found))
            yield tuple(found)

    def _primes(self, times: float, divided: Sequence[int]) -> tuple[int, ...]:
        """Primes for the lengths, unlike each other, that are so many times as long."""
        found: list[int] = []
        for size, other in zip(self.sizes, divided, strict=True):
            longer = itertools.count(max(int(size * times), other) + 1)
            found.append(next(n for n in longer if n not in found and _is_prime(n) and _are_apart(n, other)))
        return tuple(found)


def _sizes_of(graph: TrainingGraph) -> set[int]:
    """The sizes of all dims of its matrices, and of what has more dims: vectors are shapes, or numbers of dims."""
    return {
        dim.size
        for node in graph.analysis.nodes.values()
        for shape in node.attr["_output_shapes"].list.shape
        for dim in shape.dim[: len(shape.dim) if len(shape.dim) > 1 else 0]
    }


def _is_of_a_kind(one: TrainingGraph, other: TrainingGraph) -> bool:
    """Whether no dim of a tensor is of size 0 or 1, which may stand for any other, in one of two descriptions only."""
    for name, node in one.analysis.nodes.items():
        if name not in other.analysis.nodes:
            return False
        listed = other.analysis.nodes[name].attr["_output_shapes"].list.shape
        for own, known in zip(node.attr["_output_shapes"].list.shape, listed, strict=False):
            for mine, its in zip(own.dim, known.dim, strict=False):
                if mine.size != its.size and {mine.size, its.size} & {0, 1}:
                    return False
    return True


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _are_apart(one: int, other: int) -> bool:
    """Whether two numbers leave other rests, whatever small number they are divided by."""
    return all((one - other) % period for period in range(2, _LONGEST_PERIOD + 1))
