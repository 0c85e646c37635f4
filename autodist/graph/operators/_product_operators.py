"""Products of matrices and what else sums products over indices."""

from __future__ import annotations

from typing import Any

from autodist.graph.operators._base import Access, Affine, Elements, Expression, Operator, Signature, Size
from autodist.graph.operators._kinds import Kind, Linearity, Reducer

_FLIPS = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))


def _matrices(signature: Signature) -> Expression | None:
    """``MatMul`` and ``BatchMatMul``: the dims before the last two are broadcast."""
    letters = []
    for position, names in enumerate(_FLIPS):
        rank, flip = signature.rank(position), any(signature.flag(name) for name in names)
        if rank is None:
            return None
        last = ("ki" if flip else "ik") if position == 0 else ("jk" if flip else "kj")
        letters.append([*(f"b{d}" for d in range(rank - 2, 0, -1)), *last])
    return _contracted(signature, letters, [*max(letters, key=len)[:-2], "i", "j"])


def _equation(signature: Signature) -> Expression | None:
    """``Einsum``: as its equation says."""
    left, _, right = signature.text("equation").replace(" ", "").partition("->")
    operands, ranks = left.split(","), [signature.rank(k) for k in range(len(signature.inputs))]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(operands):
        return None
    letters = [letters_of(operand, rank) for operand, rank in zip(operands, known, strict=True)]
    hidden = [len(names) - len(o.replace("...", "")) for names, o in zip(letters, operands, strict=True)]
    return _contracted(signature, letters, letters_of(right, len(right.replace("...", "")) + max(hidden, default=0)))


def letters_of(operand: str, rank: int) -> list[str]:
    """The index of each dim of an operand of an equation.

    Example:
        >>> letters_of("...ij", 4)
        ['b2', 'b1', 'i', 'j']
    """
    before, dots, behind = operand.partition("...")
    count = rank - len(before) - len(behind) if dots else 0
    return [*before, *(f"b{d}" for d in range(count, 0, -1)), *behind]


def _contracted(signature: Signature, letters: list[list[str]], result: list[str]) -> Expression | None:
    if any(len(set(names)) < len(names) for names in (*letters, result)):
        return None  # a diagonal
    sizes: dict[str, Size] = {}
    for names, shape in zip(letters, signature.inputs, strict=True):
        for name, size in zip(names, shape or (), strict=True):
            if sizes.get(name, 1) == 1 or (sizes[name] is None and size not in (1, None)):
                sizes[name] = size
    inputs = tuple(
        Access(tuple(_place(name, size, sizes) for name, size in zip(names, shape or (), strict=True)))
        for names, shape in zip(letters, signature.inputs, strict=True)
    )
    ordered = {name: sizes[name] for name in (*result, *(n for n in sizes if n not in result))}
    return Expression(
        ordered, (Access.by(*result),), inputs, {name: Reducer.SUM for name in ordered if name not in result}
    )


def _place(name: str, size: Size, sizes: dict[str, Size]) -> Affine:
    return Affine() if size == 1 and sizes[name] != 1 else Affine.of(name)


def _flops(node: Any, inputs: list[str], sizes: Elements) -> float:
    """Two operations per product: each element of the first matrix is multiplied once per column of the other."""
    return 2.0 * sizes.of(inputs[0]) * (sizes.shape(node.name) or (1,))[-1]


OPERATORS = (
    *(
        Operator(name, Kind.PRODUCT, _matrices, linearity=Linearity.EACH, reducer=Reducer.SUM, flops=_flops)
        for name in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
    ),
    Operator("Einsum", Kind.PRODUCT, _equation, linearity=Linearity.EACH, reducer=Reducer.SUM),
)
