"""Adapts a replica's copy of a node to the part of the node's tensors that the replica has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from autodist.graph import NodeList, tensor_dtype
from autodist.graph.layouts import Dim, PartChange


def adapt(
    copy: Any,
    change: PartChange,
    tensors: Sequence[str],
    lengths: Collection[int],
    nodes: dict[str, Any],
    out: NodeList,
) -> str:
    """Change a copy so that it computes a part.

    Args:
        copy: The copy, with its inputs.
        change: The attributes and the constants that it gets instead of the node's.
        tensors: The inputs of the node.
        lengths: The positions of inputs that say how large the result is.
        nodes: The nodes of the step.
        out: Where to add nodes.

    Returns:
        The name of the node that has the results.
    """
    for key, value in change.attributes:
        if isinstance(value, str):
            copy.attr[key].s = value.encode()
        elif isinstance(value, int):
            copy.attr[key].i = value
        else:
            copy.attr[key].list.i[:] = value
    for k, shape, entries in change.constants:
        given, dtype = np.reshape(entries, shape), tensor_dtype(nodes, tensors[k])
        copy.input[k] = out.constant(f"{copy.name}/given_{k}", given, dtype)
    for k, zeros in change.padded:
        name, kinds = f"{copy.name}/padded_{k}", {"T": tensor_dtype(nodes, tensors[k]), "Tpaddings": "int32"}
        paddings = out.constant(f"{name}/zeros", zeros, "int32")
        copy.input[k] = out.add("Pad", name, [copy.input[k], paddings], device=copy.device, **kinds)
    return _cropped(copy, change.cropped, lengths, out) if change.cropped else copy.name


def _cropped(copy: Any, around: Sequence[tuple[int, int]], lengths: Collection[int], out: NodeList) -> str:
    """Have a copy make a larger result, and cut the part off."""
    for k in lengths:
        more = out.constant(f"{copy.name}/more_{k}", [sum(pair) for pair in around], "int32")
        copy.input[k] = out.add("AddV2", f"{copy.name}/lengths_{k}", [copy.input[k], more], T="int32")
    name, ends = f"{copy.name}/cropped", [-behind for _, behind in around]
    bounds = {"begin": [before for before, _ in around], "end": ends, "strides": [1] * len(around)}
    inputs = [copy.name, *(out.constant(f"{name}/{what}", at, "int32") for what, at in bounds.items())]
    dtype = tensor_dtype({copy.name: copy}, copy.name)
    kinds = {"T": dtype, "Index": "int32", "end_mask": sum(1 << d for d, end in enumerate(ends) if not end)}
    return out.add("StridedSlice", name, inputs, device=copy.device, **kinds)


def open_rows(copy: Any, shape: Sequence[Dim]) -> None:
    """Leave open how many rows a shape among the attributes has, not its rank: `EnsureShape` needs that."""
    copy.attr["shape"].shape.Clear()
    for size in shape:
        copy.attr["shape"].shape.dim.add().size = size if isinstance(size, int) else -1


def pass_on(copy: Any) -> None:
    """Have a copy of an ``IdentityN`` pass on its first input alone."""
    kind = copy.attr["T"].list.type[0]
    copy.op = "Identity"
    copy.attr.clear()
    copy.attr["T"].type = kind
