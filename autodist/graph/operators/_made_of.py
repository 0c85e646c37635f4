"""Operators that are made of others, which can be cut along an index that the operator itself joins.

A softmax needs all classes at once. But the maximum, the exponentials and their sum can be computed from parts of the
classes, and the softmax from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autodist.graph._nodes import NodeList

Shape: TypeAlias = "tuple[int | None, ...]"

_FLOATS = ("float32", "float64")
"""Types in which the result is as exact as that of the operator."""


@dataclass(frozen=True)
class Making:
    """Adds the operators that make the results of another one.

    Attributes:
        out: Where to add them.
        node: The other one.
        inputs: Its inputs.
        shapes: By input, its shape.
        dtypes: By input, its element type.
        constant: The value of a constant tensor, as a NumPy array; None for any other.
    """

    out: NodeList
    node: Any
    inputs: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    constant: Callable[[str], Any]

    def add(self, op: str, label: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        """Add an operator whose result has this shape; without a label it has the name of the replaced one."""
        name = f"{self.node.name}/made_of/{label}" if label else self.node.name
        return self.out.add(op, name, inputs, device=self.node.device, _output_shapes=[shape], **attributes)

    def const(self, label: str, value: Any, dtype: str) -> str:
        """Add a constant."""
        name = self.out.constant(f"{self.node.name}/made_of/{label}", value, dtype)
        self.out.nodes[-1].attr["_output_shapes"].list.shape.add().CopyFrom(self._proto(np.shape(value)))
        return name

    def counted(self, dim: int, kind: str) -> tuple[str, str]:
        """The length of a dim of the first input, and the numbers of its elements from 0 on."""
        rank, size = len(self.shapes[0]), self.shapes[0][dim]
        lengths = self.add("Shape", "lengths", self.inputs[:1], (rank,), T=self.dtypes[0], out_type=kind)
        bounds = [self.const(f"length/{what}", [at], "int32") for what, at in (("b", dim), ("e", dim + 1), ("s", 1))]
        length = self.add("StridedSlice", "length", [lengths, *bounds], (), T=kind, Index="int32", shrink_axis_mask=1)
        ends = [self.const(f"numbers/{what}", at, kind) for what, at in (("from", 0), ("step", 1))]
        return length, self.add("Range", "numbers", [ends[0], length, ends[1]], (size,), Tidx=kind)

    def _proto(self, shape: Sequence[int]) -> Any:
        import tensorflow as tf

        return tf.TensorShape(list(shape)).as_proto()

    def reduced(self, op: str, label: str, tensor: str, shape: Shape, dtype: str, dim: int, *, keeps: bool) -> str:
        """Reduce a tensor of a shape along a dim, which is kept with length 1 or dropped."""
        place = self.const(f"{label or op}/dim", [dim], "int32")
        left = tuple(1 if d == dim else size for d, size in enumerate(shape) if keeps or d != dim)
        return self.add(op, label, [tensor, place], left, T=dtype, Tidx="int32", keep_dims=keeps)

    def exponentials(self) -> tuple[str, str, str]:
        """Along the last dim of the first input: it without its maximum, its exponentials, and their sum."""
        given, shape, dtype = self.inputs[0], self.shapes[0], self.dtypes[0]
        last = len(shape) - 1
        most = self.reduced("Max", "max", given, shape, dtype, last, keeps=True)
        below = self.add("Sub", "below", [given, most], shape, T=dtype)
        powers = self.add("Exp", "exp", [below], shape, T=dtype)
        return below, powers, self.reduced("Sum", "sum", powers, shape, dtype, last, keeps=True)


MadeOf: TypeAlias = "Callable[[Making], tuple[str, ...] | None]"
"""Adds operators that make the results of another one; returns these, the first of which has its name. None if there
are none for such shapes or types."""


def _is_known(making: Making, rank: int | None = None) -> bool:
    shape = making.shapes[0]
    return making.dtypes[0] in _FLOATS and bool(shape) and rank in (None, len(shape))


def softmax(making: Making) -> tuple[str, ...] | None:
    """``Softmax``: exponentials over their sum."""
    if not _is_known(making):
        return None
    _, powers, total = making.exponentials()
    return (making.add("RealDiv", "", [powers, total], making.shapes[0], T=making.dtypes[0]),)


def log_softmax(making: Making) -> tuple[str, ...] | None:
    """``LogSoftmax``."""
    if not _is_known(making):
        return None
    below, _, total = making.exponentials()
    return (making.add("Sub", "", [below, _log(making, total)], making.shapes[0], T=making.dtypes[0]),)


def _log(making: Making, total: str) -> str:
    return making.add("Log", "log", [total], (*making.shapes[0][:-1], 1), T=making.dtypes[0])


def sparse_cross_entropy(making: Making) -> tuple[str, ...] | None:
    """``SparseSoftmaxCrossEntropyWithLogits``: the label's logarithm is picked by comparing all classes with it.

    As with the operator itself, a label that is no class is an error.
    """
    if not _is_known(making, 2):
        return None
    (rows, classes), dtype, kind = making.shapes[0], making.dtypes[0], making.dtypes[1]
    both = (rows, classes)
    below, powers, total = making.exponentials()
    _, every = making.counted(1, kind)
    first = making.const("first", 0, "int32")
    kinds: dict[str, Any] = {"Tparams": kind, "Tindices": kind, "Taxis": "int32", "batch_dims": 0}
    label = making.add("GatherV2", "label", [every, making.inputs[1], first], (rows,), **kinds)
    last = making.const("last", -1, "int32")
    in_row = _beside(making, below, making.add("ExpandDims", "row", [every, first], (1, classes), T=kind, Tdim="int32"))
    column = making.add("ExpandDims", "column", [label, last], (rows, 1), T=kind, Tdim="int32")
    is_label = making.add("Equal", "is_label", [column, in_row], both, T=kind, incompatible_shape_error=True)
    zero = making.const("zero", 0.0, dtype)
    picked = making.add("SelectV2", "picked", [is_label, below, zero], both, T=dtype)
    own = making.reduced("Sum", "own", picked, both, dtype, 1, keeps=False)
    log = making.add("Squeeze", "log_of_sum", [_log(making, total)], (rows,), T=dtype, squeeze_dims=[1])
    loss = making.add("Sub", "", [log, own], (rows,), T=dtype)
    shares = making.add("Cast", "one_hot", [is_label], both, SrcT="bool", DstT=dtype)
    return loss, _back(making, powers, total, shares, both)


def _beside(making: Making, below: str, row: str) -> str:
    """A row of numbers that is cut as the rows of the logits are, and so is the result of a comparison with it."""
    classes, dtype, kind = making.shapes[0][1], making.dtypes[0], making.dtypes[1]
    bounds = [making.const(f"one/{what}", at, "int32") for what, at in (("b", [0, 0]), ("e", [1, 0]), ("s", [1, 1]))]
    masks = {"begin_mask": 2, "end_mask": 2}
    one = making.add("StridedSlice", "one", [below, *bounds], (None, classes), T=dtype, Index="int32", **masks)
    number = making.add("Cast", "one/number", [one], (None, classes), SrcT=dtype, DstT=kind)
    zeros = making.add("ZerosLike", "zeros", [number], (None, classes), T=kind)
    return making.add("AddV2", "beside", [zeros, row], (None, classes), T=kind)


def cross_entropy(making: Making) -> tuple[str, ...] | None:
    """``SoftmaxCrossEntropyWithLogits``, if there is a share of each class for each row.

    Where the graph leaves open how many classes there are, the caller has to know that there is more than one: else
    logits of one class would be repeated for those of the labels.
    """
    if not _is_known(making, 2):
        return None
    (rows, classes), others = making.shapes[0], making.shapes[1]
    pairs = zip((rows, classes), others, strict=True)
    if classes == 1 or any(None not in (size, other) and size != other for size, other in pairs):
        return None
    both, dtype, shares = (rows if rows == others[0] else None, classes), making.dtypes[0], making.inputs[1]
    below, powers, total = making.exponentials()
    lack = making.add("Sub", "lack", [_log(making, total), below], both, T=dtype)
    terms = making.add("MulNoNan", "terms", [lack, shares], both, T=dtype)
    loss = making.reduced("Sum", "", terms, both, dtype, 1, keeps=False)
    return loss, _back(making, powers, total, shares, both)


def _back(making: Making, powers: str, total: str, shares: str, shape: Shape) -> str:
    """The gradient by the logits."""
    dtype = making.dtypes[0]
    found = making.add("RealDiv", "softmax", [powers, total], making.shapes[0], T=dtype)
    return making.add("Sub", "back", [found, shares], shape, T=dtype)


def arg_max(making: Making) -> tuple[str, ...] | None:
    """``ArgMax``: the first place of the maximum."""
    axes, shape, dtype = making.constant(making.inputs[1]), making.shapes[0], making.dtypes[0]
    if axes is None or not _is_known(making) or making.node.attr["output_type"].type not in (0, 9):
        return None
    dim = int(axes) % len(shape)
    beyond, numbers = making.counted(dim, "int64")
    most = making.reduced("Max", "max", making.inputs[0], shape, dtype, dim, keeps=True)
    is_most = making.add("Equal", "is_max", [making.inputs[0], most], shape, T=dtype, incompatible_shape_error=True)
    along = making.const("along", [-1 if d == dim else 1 for d in range(len(shape))], "int32")
    apart = tuple(size if d == dim else 1 for d, size in enumerate(shape))
    places = making.add("Reshape", "places", [numbers, along], apart, T="int64", Tshape="int32")
    none = making.const("none", 0, "int64")
    candidates = making.add("SelectV2", "candidates", [is_most, places, beyond], shape, T="int64")
    first = making.reduced("Min", "first", candidates, shape, "int64", dim, keeps=False)
    left = tuple(size for d, size in enumerate(shape) if d != dim)
    is_there = making.add("Less", "is_there", [first, beyond], left, T="int64")
    return (making.add("SelectV2", "", [is_there, first, none], left, T="int64"),)
