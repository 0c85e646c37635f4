"""Shapes and small whole numbers of a step, as functions of the number of examples.

TensorFlow's own shape inference is asked for a large batch, a small one and an odd one: a length that grows with the
batch is a multiple of it, one that is equal for all is fixed. What the step computes from shapes (the shape that a
tensor is reshaped to, the dims that a gradient is summed over) is computed by TensorFlow for these as well.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from autodist.graph._graph_def import (
    constant_value,
    data_inputs,
    is_stateful,
    node_of,
    output_types,
    split_tensor,
    tensor_dtype,
    tensor_name,
    topological_order,
)
from autodist.graph.batch import EntriesOf, Kind, Value
from autodist.graph.layouts._base import Dim, Multiple, Shape
from autodist.graph.layouts._flows import Flows
from autodist.graph.layouts._sized_steps import SizeProgram, Variables, sized_shapes, sized_step
from autodist.graph.operators import meaning

__all__ = ["Inference", "StepShapes", "Variables", "many_rows"]

_MANY = 5040
"""A number of examples that most divisors divide, so that no step is refused which takes halves or quarters; or so many
times this that the batch has no more: what takes the first 8192 rows takes all of fewer."""
_FEWER = (1680, 420, 240, 60, 48, 12)
"""Taken instead, the first that the step can be for: one that puts its rows into a queue can't be for more."""
_OTHERS = (2, 3, 5, 7, 11, 13, 12, 48, 60, 240, 420, 1680, 7560)
"""Other numbers, of which the first is taken that the step can be for. They are small if possible: what takes the
first 16 rows, or the rest of a division, gives another length for these, and is not taken for one that is fixed."""
_ODD = (13, 17, 11, 19, 7, 5, 3)
"""Numbers of which one is asked for besides, if the step can be for any: what takes the largest even number of rows, or
pads to one, gives all of them for the others."""

_MOST_TURNS, _MOST_ENTRIES = 4, 64
"""Tensors with more entries than this are not taken for shapes."""


class Inference:
    """Static shapes and numbers for one number of examples.

    Args:
        graph_def: The flat step.
        split: Placeholders whose dim 0 is the batch.
        variables: By placeholder of a handle, the element type and the shape of the variable.
        size: The number of examples.
        flows: What loops, branches and lists of tensors do with the batch.
        like: The inference for another number to start from: a new one takes a second for 5,000 nodes.

    Raises:
        ValueError: The step can't be for this many examples.
    """

    def __init__(
        self,
        graph_def: Any,
        split: Container[str],
        variables: Variables,
        size: int,
        flows: Flows,
        like: Inference | None = None,
    ) -> None:
        self.size = size
        self.followed: dict[str, Value] = {}
        self._opened: dict[str, tuple[int | None, ...]] = {}
        self._flows = flows
        self._nodes = {node.name: node for node in graph_def.node}
        self._order: list[str] = topological_order(self._nodes) if like is None else like._order
        sized = sized_step(graph_def, split, variables, size)
        if like is None or not self._holds(sized, *like.scaled(size)):
            self._find(sized)

    def _find(self, sized: Any) -> None:
        """Ask for shapes and compute numbers of them in turn."""
        self._numbers: dict[str, np.ndarray] = {}
        for _ in range(_MOST_TURNS):  # the dims that a gradient is summed over are known when shapes are
            known = len(self._numbers), len(self._opened)
            self._infer(sized, self._numbers)
            if (len(self._numbers), len(self._opened)) == known or self._is_settled(known[1]):
                break

    def _is_settled(self, opened: int) -> bool:
        """Whether another turn would find the same: all shapes are known, except those of known numbers.

        Args:
            opened: How many shapes of outputs of loops were known in this turn.
        """
        if len(self._opened) > opened:
            return False
        unknown = (
            tensor_name(name, k)
            for name, shapes in self._shapes.items()
            if name in self._nodes
            for k, shape in enumerate(shapes)
            if shape is None or None in shape
        )
        return all(self.numbers(tensor) is not None for tensor in unknown)

    def _holds(self, sized: Any, numbers: dict[str, np.ndarray], opened: dict[str, tuple[int | None, ...]]) -> bool:
        """Whether numbers are consistent: the shapes inferred with them give the same numbers again."""
        self._opened = opened
        try:
            self._infer(sized, numbers)
        except ValueError:  # shapes by such numbers don't fit
            self._opened = {}
            return False
        return _are_among(numbers, self._numbers)

    def _infer(self, sized: Any, numbers: dict[str, np.ndarray]) -> None:
        self._shapes = sized_shapes(sized, numbers, self._opened)
        self._entries = EntriesOf(self._nodes, self.shape)
        self._numbers = self._computed()
        if self._flows:
            self.followed = self._flows.followed(self)
            self._opened = {**self._opened, **self._flows.opened(self.followed, self)}

    def scaled(self, size: int) -> tuple[dict[str, np.ndarray], dict[str, tuple[int | None, ...]]]:
        """The numbers for another number of examples: multiples of this one become multiples of that.

        Returns:
            The numbers, and the shapes of outputs of loops.
        """
        numbers = {tensor: _scaled(value, self.size, size) for tensor, value in self._numbers.items()}
        opened = {
            tensor: tuple(size if length == self.size else length for length in shape)
            for tensor, shape in self._opened.items()
        }
        return numbers, opened

    def shape(self, tensor: str) -> tuple[int | None, ...] | None:
        """The static shape of a tensor."""
        name, index = split_tensor(tensor)
        found = self._shapes.get(name, ())
        return found[index] if index < len(found) else None

    def has_multiples(self, size: int) -> bool:
        """Whether a fixed length is a multiple of this number of examples, and might be taken for one that grows."""
        lengths = {length for shapes in self._shapes.values() for shape in shapes for length in shape or () if length}
        return any(length % size == 0 and length % self.size for length in lengths)

    def numbers(self, tensor: str) -> np.ndarray | None:
        """The value of a small tensor that depends on sizes alone."""
        name, index = split_tensor(tensor)
        return self._numbers.get(f"{name}:{index}")

    def entries(self, tensor: str) -> tuple[Any, ...] | None:
        """The entries of a vector of whole numbers, None for each that data decide; None if nothing is known."""
        found = self.numbers(tensor)
        if found is not None:
            return tuple(found.reshape(-1).tolist()) if found.dtype.kind in "iu" else None
        is_known = node_of(tensor) in self._nodes and _is_whole_number(tensor_dtype(self._nodes, tensor))
        return self._entries.of(tensor) if is_known else None

    def _computed(self) -> dict[str, np.ndarray]:
        """The values of nodes that compute from shapes and constants."""
        found: dict[str, np.ndarray] = {}
        known: set[str] = set()
        program = SizeProgram(found)
        for name in self._order:
            node = self._nodes[name]
            values = self._asked(node)
            if values is not None:
                found.update({f"{name}:{k}": value for k, value in enumerate(values)})
            elif self._is_of_sizes(node, known):
                program.add(node, len(self._shapes[name]))
            elif (value := self._of_known_entries(node)) is not None:
                found[f"{name}:0"] = value
            else:
                continue
            known.add(name)
        found.update((tensor, value) for tensor, value in program.values().items() if value.size <= _MOST_ENTRIES)
        return found

    def _asked(self, node: Any) -> list[np.ndarray] | None:
        """The answer to a node that asks for a shape; the value of a constant."""
        if node.op == "Const":
            return [constant_value(node)] if self._is_small(node.name) else None
        if meaning(node.op).asks is None:
            return None
        shapes = [self.shape(tensor) for tensor in data_inputs(node)]
        if any(shape is None or None in shape for shape in shapes):
            return None
        known = [[int(size or 0) for size in shape or ()] for shape in shapes]
        if node.op == "Rank":
            return [np.array(len(known[0]), np.int32)]
        dtype = np.int64 if node.attr["out_type"].type == 9 else np.int32
        return [np.array(prod(shape) if node.op == "Size" else shape, dtype) for shape in known]

    def _of_known_entries(self, node: Any) -> np.ndarray | None:
        """The value of a node that takes only known entries of a shape, although data decide others; else None."""
        shapes, given = self._shapes[node.name], map(self.shape, data_inputs(node))
        if len(shapes) != 1 or any(shape is None or None in shape or len(shape) > 1 for shape in (*shapes, *given)):
            return None
        dtype = tensor_dtype(self._nodes, node.name)
        found = self._entries.of(node.name) if _is_whole_number(dtype) else None
        return None if found is None or None in found else np.array(found if shapes[0] else found[0], dtype)

    def _is_of_sizes(self, node: Any, known: set[str]) -> bool:
        import tensorflow as tf

        inputs = data_inputs(node)
        if is_stateful(node.op) or not inputs or not all(node_of(tensor) in known for tensor in inputs):
            return False
        if any(attribute.func.name or attribute.list.func for attribute in node.attr.values()):
            return False
        kinds = {tf.as_dtype(kind) for kind in output_types(node)}
        if not kinds or not all(kind.is_integer or kind.is_floating or kind.is_bool for kind in kinds):
            return False
        return all(self._is_small(f"{node.name}:{k}") for k in range(len(self._shapes[node.name])))

    def _is_small(self, tensor: str) -> bool:
        """Whether a tensor has few entries; of a vector that has as many as its inputs say, it is not yet known."""
        name, index = split_tensor(tensor)
        shape = self._shapes[name][index]
        if shape is None or None in shape:
            return shape == (None,)
        return prod(size or 0 for size in shape) <= _MOST_ENTRIES


def many_rows(batch_size: int | None) -> tuple[int, ...]:
    """Large numbers of examples: the first that a step accepts is used; the plan is known to hold up to that number.

    Args:
        batch_size: Examples in the batch that the step was captured for, if anybody has said.
    """
    least = batch_size or 0
    many = _MANY * max(1, -(-least // _MANY))
    return (many, *(size for size in _FEWER if size >= least), *([least] if least > 1 else []))


def _is_whole_number(dtype: str) -> bool:
    return dtype in ("int32", "int64")


def _scaled(value: np.ndarray, before: int, after: int) -> np.ndarray:
    if value.dtype.kind not in "iuf" or not np.isfinite(value).all():
        return value
    wide = value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
    of_examples = np.where((wide % before == 0) & (wide > 0), wide // before * after, wide)
    of_pairs = (wide % before**2 == 0) & (wide > 0)
    return np.where(of_pairs, wide // before**2 * after**2, of_examples).astype(value.dtype)


def _are_among(some: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> bool:
    """Whether numbers are among those found: of fewer examples more vectors are small, and so have numbers."""
    return all(tensor in found and np.array_equal(value, found[tensor]) for tensor, value in some.items())


def _agreed(cases: Sequence[Sequence[Value]]) -> list[Value]:
    """The facts that hold for all numbers of examples; one tensor may be as long as a batch by chance."""
    return [values[0] if len(set(values)) == 1 else Kind.MET for values in zip(*cases, strict=True)]


class StepShapes:
    """Shapes and numbers of a step as functions of the number of examples.

    A step for one number of examples only is asked for just that. A length that is a multiple of it by chance is taken
    for one then, which does no harm: whatever is cut in proportion to the replicas' examples is cut rightly.

    Args:
        graph_def: The flat step.
        split: Placeholders whose dim 0 is the batch.
        variables: By placeholder of a handle, the element type and the shape of the variable.
        flows: What loops, branches and lists of tensors do with the batch.
        fixed: The number of examples of a step that is for no other; None for a step for any number.
        many: Large numbers of examples, see :func:`many_rows`.
    """

    def __init__(
        self,
        graph_def: Any,
        split: Iterable[str],
        variables: Variables,
        flows: Flows,
        fixed: int | None = None,
        many: Sequence[int] = (_MANY,),
    ) -> None:
        self.meanings: dict[str, Any] = {}  # what nodes compute, as far as anyone has asked
        batch = set(split)
        self._flows = flows
        self._infer = functools.partial(Inference, graph_def, batch, variables, flows=flows)
        self.cases = self._cases(fixed, many)
        self._sizes = tuple(case.size for case in self.cases)

    def _cases(self, fixed: int | None, many: Sequence[int]) -> tuple[Inference, ...]:
        """The facts for a large number of examples, a small one and an odd one; or for the only one."""
        if fixed is not None:
            return (self._infer(fixed),)
        first = self._first(many)
        cases: tuple[Inference, ...] = (first,)
        for sizes in (_OTHERS, _ODD):
            for size in sizes:
                if size != first.size and not (self._flows and first.has_multiples(size)):
                    with contextlib.suppress(ValueError):  # the step can't be for so few
                        cases = *cases, self._infer(size, like=first)
                        break
        if len(cases) == 1:
            raise ValueError(f"they are for {first.size} examples, but for no other number")
        return cases

    def _first(self, sizes: Sequence[int]) -> Inference:
        """The facts for the first of these numbers that the step can be for."""
        for size in sizes[:-1]:
            with contextlib.suppress(ValueError):
                return self._infer(size)
        return self._infer(sizes[-1])

    @property
    def most_rows(self) -> int:
        """The largest number of examples that the step is surely known for."""
        return self._sizes[0]

    def shape(self, tensor: str) -> Shape:
        """The shape of a tensor; None where the rank is unknown."""
        found = [case.shape(tensor) for case in self.cases]
        known = [shape for shape in found if shape is not None]
        if len(known) < len(found) or len(set(map(len, known))) > 1:
            return None
        return tuple(map(self.dim, zip(*known, strict=True)))

    def numbers(self, tensor: str) -> tuple[Dim, ...] | None:
        """The entries of a vector of whole numbers, or the one of a scalar; None where they are not known."""
        found = [case.numbers(tensor) for case in self.cases]
        known = [value for value in found if value is not None and value.dtype.kind in "iu"]
        if len(known) < len(found) or len({value.shape for value in known}) > 1:
            return None
        return tuple(map(self.dim, zip(*(map(int, value.reshape(-1)) for value in known), strict=True)))

    def unlike(self, nodes: Mapping[str, Any], rows: int) -> str | None:
        """The first of some nodes with a size that, for so many examples, is not the one that the plan assumes.

        Raises:
            ValueError: The step can't be for so many.
        """
        case = self._infer(rows)

        def differs(known: Sequence[Dim] | None, found: Sequence[int | None] | None) -> bool:
            if known is None or found is None:
                return False
            expected = [size.times * rows if isinstance(size, Multiple) else size for size in known]
            pairs = zip(expected, found, strict=False)
            return len(expected) != len(found) or any(None not in pair and pair[0] != pair[1] for pair in pairs)

        for name, node in nodes.items():
            for k in range(max(1, len(output_types(node)))):
                tensor = tensor_name(name, k)
                numbers = case.numbers(tensor)
                entries = None if numbers is None else numbers.reshape(-1).tolist()
                if differs(self.shape(tensor), case.shape(tensor)) or differs(self.numbers(tensor), entries):
                    return name
        return None

    def flow(self, node: Any) -> tuple[list[Value], list[Value]]:
        """For a loop, a branch, or what handles lists of tensors, where its inputs and outputs have the batch."""
        count = len(node.attr["_output_shapes"].list.shape)
        names = [tensor_name(node.name, k) for k in range(max(1, count))]
        inputs = [self._flows.inputs(node, case.followed, case) for case in self.cases]
        outputs = [[case.followed.get(name, Kind.MET) for name in names] for case in self.cases]
        return _agreed(inputs), _agreed(outputs)

    def dim(self, lengths: Sequence[int | None]) -> Dim:
        """A length, given its value for each number of examples."""
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            return None
        times = known[0] // self._sizes[0]
        if times > 0 and known == [times * size for size in self._sizes]:
            return Multiple(times)
        return known[0] if len(set(known)) == 1 else None

    def product(self, one: Dim, other: Dim) -> Dim:
        """The product of two lengths; None if it grows faster than the number of examples."""
        if not isinstance(one, Multiple):
            one, other = other, one
        if isinstance(one, Multiple) and isinstance(other, Multiple):
            return Multiple(one.times * other.times * self._sizes[0]) if len(self._sizes) == 1 else None
        if one is None or other is None or isinstance(other, Multiple):
            return None
        return Multiple(one.times * other) if isinstance(one, Multiple) else one * other
