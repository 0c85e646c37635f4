"""Numbers of all parts: where an update puts all elements of a tensor together, such as into a norm, or adds up some.

Each part of a tiled variable gives a number, and these make the number of the whole. Where sums of rows or columns are
several numbers, each part gives all of them, with zeros for those that it has no part in. A worker that has some parts
only gets the others' numbers at the node with the attribute :data:`OF_PARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from autodist.graph import NodeList, output_shape, set_shape
from autodist.graph.operators import Reducer, meaning
from autodist.kernels.shard._shard_rows import with_shape
from autodist.strategies import ShardSlice

OF_PARTS = "_autodist_of_parts"
"""An attribute of an Identity: the variable of whose parts its input is made, one input for each."""

SHAPE_OF_PARTS = "_autodist_shape_of_parts"
"""An attribute of the same Identity, if its input is a sum: the shape."""

_ADDED = (Reducer.SUM, Reducer.MEAN)


def of_part(nodes: NodeList, node: Any, dims: Sequence[int], part: ShardSlice, dtype: str) -> str:
    """Have the copy of a node that was added last give the numbers of a part, with which others are put together.

    Args:
        nodes: Where the copy is, and where to add nodes.
        node: The node that puts elements together.
        dims: The dims along which it does so.
        part: The part.
        dtype: The type of the elements.

    Returns:
        The tensor that has them.
    """
    copy = nodes.nodes[-1]
    if meaning(node.op).reducer is Reducer.MEAN:
        copy.op = "Sum"
    whole = output_shape(node) or ()
    if prod(size or 0 for size in whole) == 1:
        return with_shape(nodes, copy.name, whole)
    keeps = node.attr["keep_dims"].b
    kept = [None if dim in dims else dim for dim in range(len(part.size)) if keeps or dim not in dims]
    own = tuple(1 if dim is None else part.size[dim] for dim in kept)
    with_shape(nodes, copy.name, own)
    if own == whole:
        return str(copy.name)
    begins = [0 if dim is None else part.begin[dim] for dim in kept]
    around = [[begin, (end or 0) - begin - size] for begin, size, end in zip(begins, own, whole, strict=True)]
    paddings = nodes.constant(f"{copy.name}/around", around, "int32")
    padded = nodes.add("Pad", f"{copy.name}/among_all", [copy.name, paddings], T=dtype, Tpaddings="int32")
    return with_shape(nodes, padded, whole)


def of_all_parts(
    nodes: NodeList, node: Any, variable: str, parts: Sequence[str], given: Sequence[int | None], dtype: str
) -> None:
    """Add, under a node's own name, the numbers of the whole.

    Args:
        nodes: Where to add nodes.
        node: The node that puts elements of a tensor together.
        variable: The variable that is in parts.
        parts: The numbers of the parts.
        given: The shape of the tensor.
        dtype: The type of its elements.
    """
    reducer, prefix, shape = meaning(node.op).reducer, f"{node.name}/autodist", output_shape(node) or ()
    if reducer in _ADDED:
        made = with_shape(nodes, nodes.sum(f"{prefix}/parts", parts, dtype), shape)
    else:
        made = nodes.add("Pack", f"{prefix}/parts", parts, N=len(parts), T=dtype, axis=0)
        with_shape(nodes, made, (len(parts), *shape))
    joined = nodes.identity(node.name if reducer is Reducer.SUM else f"{prefix}/joined", made, dtype)
    with_shape(nodes, joined, shape if reducer in _ADDED else (None, *shape))
    nodes.nodes[-1].attr[OF_PARTS].s = variable.encode()
    if reducer in _ADDED:
        set_shape(nodes.nodes[-1].attr[SHAPE_OF_PARTS].shape, shape)
    if reducer is Reducer.MEAN:
        numbers = prod(size or 0 for size in shape)
        count = nodes.constant(f"{prefix}/count", prod(size or 0 for size in given) // numbers, dtype)
        nodes.add("RealDiv", node.name, [joined, count], T=dtype)
    elif reducer is not Reducer.SUM:
        dim = nodes.constant(f"{prefix}/dim", [0], "int32")
        kinds: dict[str, Any] = {"Tidx": "int32", "keep_dims": False, **({} if dtype == "bool" else {"T": dtype})}
        nodes.add(node.op, node.name, [joined, dim], **kinds)
    with_shape(nodes, node.name, shape)
