"""Operators that put the elements along dims together."""

from __future__ import annotations

from typing import Any

from autodist.graph.operators._base import WHOLE, Access, Affine, Elements, Expression, Operator, Signature
from autodist.graph.operators._kinds import Kind, Linearity, Reducer
from autodist.graph.operators._whole_numbers import largest, multiplied

_REDUCERS = {
    "Sum": Reducer.SUM,
    "Mean": Reducer.MEAN,
    "Prod": Reducer.PROD,
    "Max": Reducer.MAX,
    "Min": Reducer.MIN,
    "All": Reducer.ALL,
    "Any": Reducer.ANY,
    "EuclideanNorm": Reducer.NORM,
}
_NUMBERS = {"Prod": multiplied, "Max": largest}


def _reduced(signature: Signature) -> Expression | None:
    """Along the dims that the second input names; they go, or stay with one element."""
    shape, axes = signature.inputs[0], signature.numbers(1)
    if shape is None or axes is None:
        return None
    names = [f"d{d}" for d in range(len(shape))]
    gone = {axis % len(shape) for axis in axes}
    keeps = signature.flag("keep_dims")
    places = [Affine() if d in gone else Affine.of(name) for d, name in enumerate(names) if keeps or d not in gone]
    sizes = dict(zip(names, shape, strict=True))
    along = [names[d] for d in sorted(gone)]
    return Expression(
        sizes,
        (Access(tuple(places)),),
        (Access.by(*names), WHOLE),
        dict.fromkeys(along, _REDUCERS[signature.op]),
    )


def _all(signature: Signature) -> Expression | None:
    """``L2Loss``: half the sum of squares."""
    shape = signature.inputs[0]
    if shape is None:
        return None
    names = [f"d{d}" for d in range(len(shape))]
    return Expression(
        dict(zip(names, shape, strict=True)), (Access(()),), (Access.by(*names),), dict.fromkeys(names, Reducer.SUM)
    )


def _bias_gradient(signature: Signature) -> Expression | None:
    shape = signature.inputs[0]
    if shape is None:
        return None
    names = [f"d{d}" for d in range(len(shape))]
    channel = names[1 if signature.text("data_format") == "NCHW" else -1]
    return Expression(
        dict(zip(names, shape, strict=True)),
        (Access.by(channel),),
        (Access.by(*names),),
        dict.fromkeys((name for name in names if name != channel), Reducer.SUM),
    )


def _flops(node: Any, inputs: list[str], sizes: Elements) -> float:
    return sizes.of(inputs[0])


OPERATORS = (
    *(
        Operator(
            name,
            Kind.REDUCTION,
            _reduced,
            linearity=Linearity.FIRST if name in ("Sum", "Mean") else None,
            reducer=_REDUCERS[name],
            numbers=_NUMBERS.get(name),
            flops=_flops,
        )
        for name in _REDUCERS
    ),
    Operator("L2Loss", Kind.REDUCTION, _all, reducer=Reducer.SUM, flops=_flops),
    Operator(
        "BiasAddGrad", Kind.REDUCTION, _bias_gradient, linearity=Linearity.FIRST, reducer=Reducer.SUM, flops=_flops
    ),
)
