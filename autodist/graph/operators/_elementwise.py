"""Operators whose results are as large as what their inputs are broadcast to, and are computed element by element."""

from __future__ import annotations

import operator
from dataclasses import replace

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Adapt,
    Affine,
    Change,
    Expression,
    Operand,
    Operator,
    Ranges,
    Shape,
    Signature,
    Size,
)
from autodist.graph.operators._kinds import Handle, Kind, Linearity, Passes
from autodist.graph.operators._whole_numbers import at_least, entry_by_entry, maximum, quotient

_OTHERS = """
    Abs Acos Acosh ApproximateEqual Asin Asinh Atan Atan2 Atanh Betainc BitwiseAnd BitwiseOr BitwiseXor
    Ceil Complex ComplexAbs Conj Cos Cosh Digamma Elu EluGrad Equal Erf Erfc Erfinv Exp Expm1
    FakeQuantWithMinMaxArgs Floor FloorDiv FloorMod Greater GreaterEqual Igamma Igammac Imag Inv Invert IsFinite IsInf
    IsNan LeakyRelu LeakyReluGrad LeftShift Less LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum
    Minimum Mod Ndtri NextAfter NotEqual OnesLike Polygamma Pow Real Reciprocal Relu Relu6 Relu6Grad ReluGrad RightShift
    Rint Round Rsqrt RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Softplus SoftplusGrad
    Softsign SoftsignGrad Sqrt SqrtGrad Square SquaredDifference Tan Tanh TanhGrad TruncateDiv TruncateMod
    Xdivy Xlog1py Xlogy ZerosLike Zeta BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e
    BesselK1 BesselK1e BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin Spence Angle InvGrad ReciprocalGrad
    StringLower StringUpper StringStrip StringLength
    StringToHashBucketFast StringToHashBucket StringToHashBucketStrong StringToNumber AsString StringJoin Bucketize
    RegexReplace StaticRegexReplace RegexFullMatch StaticRegexFullMatch
    FakeQuantWithMinMaxVars ClipByValue SelectV2
"""
_LOOKED_UP = ("LookupTableFind", "LookupTableFindV2")
_SAME = """
    Identity Snapshot StopGradient PreventGradient CheckNumerics CheckNumericsV2 GuaranteeConst
    Print Copy DebugIdentity DebugIdentityV2
"""
_FLAT = frozenset(["ZerosLike", "OnesLike", "Sign", "Floor", "Ceil", "Round", "Rint", "FloorDiv", "TruncateDiv"])
_CAN_FAIL = "Div FloorDiv FloorMod Mod Pow TruncateDiv TruncateMod CheckNumerics CheckNumericsV2 StringToNumber"
_SHAPED = "EnsureShape PlaceholderWithDefault"
_FREE = frozenset({"Identity", "StopGradient", "PreventGradient", "EnsureShape", "GuaranteeConst"})


def broadcast_shape(shapes: tuple[Shape, ...]) -> Shape:
    """The shape of what tensors are broadcast to; None where a rank is unknown.

    Example:
        >>> broadcast_shape(((None, 3), (3,), ()))
        (None, 3)
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(shape) for shape in known), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(_longest(sizes) for sizes in zip(*padded, strict=True))


def _longest(sizes: tuple[Size, ...]) -> Size:
    fixed = [size for size in sizes if size not in (1, None)]
    return fixed[0] if fixed else None if None in sizes else 1


def pointwise(signature: Signature) -> Expression | None:
    """Trailing dims are aligned; an input with one element along a dim, or without the dim, is not indexed there."""
    result = broadcast_shape(signature.inputs)
    if result is None:
        return None
    names = [f"d{d}" for d in range(len(result))]
    sizes = dict(zip(names, result, strict=True))
    inputs = tuple(_aligned(shape or (), names, result) for shape in signature.inputs)
    return Expression(sizes, (Access.by(*names),) * max(1, len(signature.outputs)), inputs)


def _aligned(shape: tuple[Size, ...], names: list[str], result: tuple[Size, ...]) -> Access:
    offset = len(names) - len(shape)
    return Access(
        tuple(
            Affine() if size == 1 and result[offset + d] != 1 else Affine.of(names[offset + d])
            for d, size in enumerate(shape)
        )
    )


def _chosen(signature: Signature) -> Expression | None:
    """``Select``: the condition has all dims, or the first one alone."""
    condition, *both = signature.inputs
    found = pointwise(replace(signature, inputs=tuple(both)))
    if found is None or condition is None:
        return None
    names = list(found.sizes)[: len(condition)]
    first: Operand = Access.by(*names) if condition else WHOLE
    return replace(found, inputs=(first, *found.inputs))


def _biased(signature: Signature) -> Expression | None:
    """``BiasAdd``: one number per channel."""
    rank, shape = signature.rank(0), signature.inputs[0]
    if rank is None or shape is None:
        return None
    names = [f"d{d}" for d in range(rank)]
    channel = 1 if signature.text("data_format") == "NCHW" else rank - 1
    access = Access.by(*names)
    return Expression(dict(zip(names, shape, strict=True)), (access,), (access, Access.by(names[channel])))


def _each(signature: Signature) -> Expression | None:
    """``IdentityN``: each input is passed on; as long as all have one shape they can be cut alike."""
    alike = pointwise(signature) if len(set(signature.inputs)) == 1 else None
    return None if alike is None else replace(alike, outputs=alike.outputs[: len(signature.outputs)])


def _same_rank(signature: Signature) -> Expression | None:
    """``Bitcast`` between types of one size; else a dim comes or goes."""
    return pointwise(signature) if signature.outputs[0] == signature.inputs[0] else None


def _any_shape(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile has another shape than the attribute says."""
    return Change({"shape": None})


_LINEAR = {
    **dict.fromkeys(("Add", "AddV2", "AddN", "Sub"), Linearity.JOINT),
    **dict.fromkeys(("Mul", "MulNoNan"), Linearity.EACH),
    **dict.fromkeys(("RealDiv", "Div", "DivNoNan"), Linearity.NUMERATOR),
    "Neg": Linearity.FIRST,
}

_NUMBERS = {
    "AddV2": entry_by_entry(operator.add),
    "Sub": entry_by_entry(operator.sub),
    "Mul": entry_by_entry(operator.mul),
    "FloorDiv": entry_by_entry(quotient),
    "Maximum": entry_by_entry(maximum),
    "GreaterEqual": entry_by_entry(at_least),
}


def _other(name: str) -> Operator:
    return Operator(
        name,
        Kind.ELEMENTWISE,
        pointwise,
        is_flat=name in _FLAT,
        ignores_values=name in ("OnesLike", "ZerosLike"),
        numbers=_NUMBERS.get(name),
        chooses=name == "SelectV2",
        has_one_shape=name.endswith("Grad"),
        can_fail=name in _CAN_FAIL.split(),
    )


def _passing(name: str, adapt: Adapt | None = None) -> Operator:
    return Operator(
        name,
        Kind.ELEMENTWISE,
        pointwise,
        adapt,
        passes=Passes.SAME,
        linearity=Linearity.FIRST,
        is_flat=name == "StopGradient",
        is_free=name in _FREE,
        is_acting=name == "Print",
        can_fail=name in _CAN_FAIL.split(),
    )


OPERATORS = (
    *(_other(name) for name in _OTHERS.split()),
    *(
        Operator(
            name,
            Kind.ELEMENTWISE,
            pointwise,
            linearity=linearity,
            has_one_shape=name == "AddN",
            numbers=_NUMBERS.get(name),
            adds=name.startswith("Add"),
            can_fail=name in _CAN_FAIL.split(),
        )
        for name, linearity in _LINEAR.items()
    ),
    *(_passing(name) for name in _SAME.split()),
    *(_passing(name, _any_shape) for name in _SHAPED.split()),
    *(Operator(name, Kind.ELEMENTWISE, pointwise, table=Handle.READS) for name in _LOOKED_UP),
    Operator("Bitcast", Kind.ELEMENTWISE, _same_rank),
    Operator("Cast", Kind.ELEMENTWISE, pointwise, passes=Passes.TYPE, linearity=Linearity.FIRST),
    Operator("IdentityN", Kind.ELEMENTWISE, _each, passes=Passes.SAME, is_free=True),
    Operator("BiasAdd", Kind.ELEMENTWISE, _biased, linearity=Linearity.JOINT),
    Operator("Select", Kind.ELEMENTWISE, _chosen, chooses=True, has_one_shape=True),
)
