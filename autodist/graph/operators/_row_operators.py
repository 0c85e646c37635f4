"""Operators that take rows by their numbers, and that add to rows by theirs."""

from __future__ import annotations

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Affine,
    Expression,
    Lengths,
    Lookup,
    Operand,
    Operator,
    Signature,
    Size,
)
from autodist.graph.operators._kinds import Handle, Kind, Linearity, Reducer
from autodist.graph.operators._whole_numbers import looked_up


def _gathered(signature: Signature) -> Expression | None:
    """Rows of a table, along one dim of it; dims before may be the same in both."""
    table, rows = signature.inputs[:2]
    axes = signature.numbers(2) if len(signature.inputs) > 2 else (0,)
    if table is None or rows is None or axes is None:
        return None
    axis, shared = axes[0] % max(1, len(table)), signature.number("batch_dims")
    if shared < 0:
        shared += len(rows)
    names = [f"t{d}" for d in range(len(table))]
    found = [*names[:shared], *(f"r{d}" for d in range(shared, len(rows)))]
    sizes: dict[str, Size] = dict(zip(names, table, strict=True))
    sizes |= {name: size for name, size in zip(found, rows, strict=True) if name not in sizes or sizes[name] is None}
    made = [*names[:axis], *found[shared:], *names[axis + 1 :]]
    inputs: tuple[Operand, ...] = (Access.by(*names), Access.by(*found), *(WHOLE,) * (len(signature.inputs) - 2))
    row, masked = names[axis], {names[axis]: 1} if axis == shared == 0 else {}
    return Expression(sizes, (Access.by(*made),), inputs, {row: Reducer.SUM}, frozenset({row}), masked)


def _from_variable(signature: Signature) -> Expression | None:
    """``ResourceGather``: each number gives a row, whatever the table's dims are."""
    rows, result = signature.inputs[1], signature.outputs[0]
    if rows is None or result is None or signature.number("batch_dims"):
        return None
    names = [f"d{d}" for d in range(len(result))]
    joined = frozenset(names[len(rows) :])
    return Expression(
        dict(zip(names, result, strict=True)), (Access.by(*names),), (WHOLE, Access.by(*names[: len(rows)])), {}, joined
    )


def _by_coordinates(signature: Signature) -> Expression | None:
    """``GatherNd``: the last dim of the numbers are coordinates in the first dims of the table."""
    table, at = signature.inputs[:2]
    if table is None or at is None or not at or at[-1] is None or signature.number("batch_dims"):
        return None
    places, rest = [f"r{d}" for d in range(len(at) - 1)], [f"t{d}" for d in range(at[-1], len(table))]
    sizes: dict[str, Size] = {**dict(zip(places, at, strict=False)), **dict(zip(rest, table[at[-1] :], strict=True))}
    taken = Access.by(*(None,) * at[-1], *rest)
    return Expression(sizes, (Access.by(*places, *rest),), (taken, Access.by(*places, None)))


_SEGMENTS = {
    "UnsortedSegmentSum": Reducer.SUM,
    "UnsortedSegmentMax": Reducer.MAX,
    "UnsortedSegmentMin": Reducer.MIN,
    "UnsortedSegmentProd": Reducer.PROD,
}


def segments(signature: Signature) -> Expression | None:
    """Rows of one number are put together; along the numbers themselves it can be cut by a mask only."""
    data, at = signature.inputs[:2]
    result = signature.outputs[0]
    if data is None or at is None or result is None:
        return None
    rows, rest = [f"r{d}" for d in range(len(at))], [f"d{d}" for d in range(len(at), len(data))]
    sizes: dict[str, Size] = {"v": result[0], **dict(zip([*rows, *rest], data, strict=True))}
    return Expression(
        sizes,
        (Access.by("v", *rest),),
        (Access.by(*rows, *rest), Access.by(*rows), Lengths((Affine.of("v"),), is_scalar=True)),
        dict.fromkeys(rows, _SEGMENTS[signature.op]),
        frozenset({"v"}),
        {"v": 1},
    )


def _scattered(signature: Signature) -> Expression | None:
    """``ScatterNd``: rows are added at coordinates."""
    at, updates = signature.inputs[:2]
    result = signature.outputs[0]
    if at is None or updates is None or result is None or not at or at[-1] is None:
        return None
    depth, rows = at[-1], [f"r{d}" for d in range(len(at) - 1)]
    places = [f"v{d}" for d in range(depth)]
    rest = [f"d{d}" for d in range(depth, len(result))]
    sizes: dict[str, Size] = {**dict(zip([*places, *rest], result, strict=True)), **dict(zip(rows, at, strict=False))}
    lengths = Lengths(tuple(Affine.of(name) for name in (*places, *rest)))
    return Expression(
        sizes,
        (Access.by(*places, *rest),),
        (Access.by(*rows, None), Access.by(*rows, *rest), lengths),
        dict.fromkeys(rows, Reducer.SUM),
        frozenset(places),
    )


_COUNTED = frozenset({3, 9})
"""int32 and int64: bytes can't be counted from any row, 3 - 200 is 59 there."""


def _one_hot(signature: Signature) -> Expression | None:
    """A new dim; a part of it counts the numbers from where it begins, and those of other parts are none of its own."""
    at, result = signature.inputs[0], signature.outputs[0]
    if at is None or result is None:
        return None
    place = signature.number("axis", -1) % len(result)
    names = [f"d{d}" for d in range(len(result))]
    taken = Access.by(*(name for d, name in enumerate(names) if d != place))
    sizes: dict[str, Size] = dict(zip(names, result, strict=True))
    inputs = (taken, Lengths((Affine.of(names[place]),), is_scalar=True), WHOLE, WHOLE)
    masked = {names[place]: 0} if signature.attributes["TI"].type in _COUNTED else {}
    return Expression(sizes, (Access.by(*names),), inputs, {}, frozenset({names[place]}), masked)


def _boxes(signature: Signature) -> Expression | None:
    """``CropAndResize``: one part of an image for each box."""
    images, result = signature.inputs[0], signature.outputs[0]
    if images is None or result is None:
        return None
    sizes: dict[str, Size] = dict(zip("bhwc", result, strict=True))
    taken = Access.by(None, None, None, "c")
    inputs = (taken, Access.by("b", None), Access.by("b"), WHOLE)
    return Expression(sizes, (Access.by(*"bhwc"),), inputs, {}, frozenset("hw"))


_BY_COORDINATES = Lookup(by_handle=True, by_coordinates=True)

OPERATORS = (
    Operator("Gather", Kind.LOOKUP, _gathered, linearity=Linearity.FIRST, lookup=Lookup()),
    Operator(
        "GatherV2", Kind.LOOKUP, _gathered,
        linearity=Linearity.FIRST, lookup=Lookup(), picks=True, numbers=looked_up,
    ),
    Operator("ResourceGather", Kind.LOOKUP, _from_variable, lookup=Lookup(by_handle=True), handle=Handle.READS),
    Operator(
        "GatherNd", Kind.LOOKUP, _by_coordinates,
        linearity=Linearity.FIRST, lookup=Lookup(by_coordinates=True), picks=True,
    ),
    Operator("ResourceGatherNd", Kind.LOOKUP, lookup=_BY_COORDINATES, handle=Handle.READS),
    Operator("OneHot", Kind.MOVING, _one_hot, picks=True),
    Operator("CropAndResize", Kind.LOOKUP, _boxes),
    Operator("DynamicPartition", Kind.OTHER, linearity=Linearity.FIRST),
    *(
        Operator(
            name, Kind.SCATTER, segments, linearity=Linearity.FIRST if name.endswith("Sum") else None, reducer=reducer
        )
        for name, reducer in _SEGMENTS.items()
    ),
    Operator("ScatterNd", Kind.SCATTER, _scattered, reducer=Reducer.SUM),
    *(
        Operator(
            name,
            Kind.SCATTER,
            reducer=Reducer.SUM if name == "SparseSegmentSum" else None,
            updates_places=name.startswith("TensorScatter"),
        )
        for name in (
            "SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd", "DenseBincount", "Bincount",
            "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumWithNumSegments",
            "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments", "SparseTensorDenseMatMul",
            "SparseToDense", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax",
            "TensorScatterMin", "DynamicStitch", "ParallelDynamicStitch",
        )
    ),
)  # fmt: skip
