"""Lengths: a step that is traced once for batches of all lengths, and described for some of them.

How replicas share a step is found out by the sizes of all dims but that of the batch. A step whose sequences have any
length is described for three lengths, as if it had been traced for each: about those of the call at hand, shorter and
longer ones. What is rewritten alike for all of them is right for the lengths between. That of the middle is prime: a
reshape that mixes examples where a length has no divisor is seen by that. No order of two lengths, and no remainder,
is common to all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autodist.errors import CaptureError
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.tracing._captured_step import CapturedStep, ServedLengths

Shapes: TypeAlias = tuple[tuple[int | None, ...] | None, ...]

_SHORT = (2, 3, 5, 7, 11)
_LONGER = (8.0, 3.0, 1.5)
"""How many times as long as those of the call, one after the other until they fit."""
_AMONG = 100
"""Among how many sizes a longer one is chosen."""


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
            OtherLengthsError: It can, but not for those of the call.
        """
        first = self._primes()  # those of the call may be those of other dims by chance
        try:
            own = describe(self._with(first, split))
        except CaptureError:
            raise
        except ValueError as error:  # TensorFlow refuses shapes that don't fit each other
            raise CaptureError(f"it is not for arguments of any length: {str(error).splitlines()[0]}") from error
        least, shorter = self._first(describe, own, self._shorter(), split)
        most, longer = self._first(describe, own, (self._longer(times, first, least) for times in _LONGER), split)
        if least is None and most is None:
            raise CaptureError("it can't be described for other lengths")
        if _have_a_pair_in_order(first, least or first, most or first):
            raise CaptureError("it can't be described for lengths of which another one is the longest")
        others = tuple(found for found in (shorter, longer) if found is not None)
        lengths = ServedLengths(others, self.dims, least or first, most or first)
        lengths.check(self.shapes)
        return replace(own, lengths=lengths)

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
        for sizes in sorted(wanted, key=lambda sizes: (sizes == self.sizes, not others.isdisjoint(sizes))):
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
        """Lengths that are shorter, those of the call at last; of two the longer one is now the shorter one."""
        descending = sorted(range(len(self.sizes)), key=self.sizes.__getitem__, reverse=True)
        for size in (*_SHORT, min(self.sizes) // 2):
            sizes = [size + descending.index(length) for length in range(len(self.sizes))]
            if size > 1 and all(short < own for short, own in zip(sizes, self.sizes, strict=True)):
                yield tuple(sizes)
        yield self.sizes

    def _longer(self, times: float, first: Sequence[int], least: Sequence[int] | None) -> tuple[int, ...]:
        """Lengths that are so many times as long, primes if possible.

        All three that are described leave no remainder in common: what is so for odd ones only is not so for all.
        If one of two lengths is the shorter one so far, it becomes the longer one.
        """
        is_turned = _have_a_pair_in_order(first, least or first)
        found: dict[int, int] = {}
        for length in sorted(range(len(first)), key=first.__getitem__, reverse=True):
            own = max(self.sizes) if is_turned else self.sizes[length]
            others = found.values() if is_turned else (first[length],)
            start = max(int(own * times), first[length], *others)
            step = first[length] - least[length] if least is not None else 1
            free = (n for n in range(start + 1, start + _AMONG) if n not in found.values())
            fits = [n for n in free if math.gcd(n - first[length], step) == 1]
            found[length] = next(filter(_is_prime, fits), fits[0])
        return tuple(found[length] for length in range(len(first)))

    def _primes(self) -> tuple[int, ...]:
        """Primes for the lengths, unlike each other, that are a little longer."""
        found: list[int] = []
        for size in self.sizes:
            longer = (n for n in itertools.count(size + 1) if n not in found and _is_prime(n))
            found.append(next(longer))
        return tuple(found)


def _have_a_pair_in_order(*lengths: Sequence[int]) -> bool:
    """Whether one length is longer than another in all of these."""
    pairs = itertools.permutations(range(len(lengths[0])), 2)
    return any(all(sizes[one] > sizes[other] for sizes in lengths) for one, other in pairs)


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
