"""Adapts a replica's copy of a node to the part of the node's tensors that the replica has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodist.graph import NodeList, tensor_dtype
from autodist.graph.layouts import Dim, PartChange


def adapt(copy: Any, change: PartChange, tensors: Sequence[str], nodes: dict[str, Any], out: NodeList) -> None:
    """Change a copy so that it computes a part.

    Args:
        copy: The copy, with its inputs.
        change: The attributes and the constants that it gets instead of the node's.
        tensors: The inputs of the node.
        nodes: The nodes of the step.
        out: Where to add nodes.
    """
    for key, value in change.attributes:
        if isinstance(value, int):
            copy.attr[key].i = value
        else:
            copy.attr[key].list.i[:] = value
    for k, shape, entries in change.constants:
        given, dtype = np.reshape(entries, shape), tensor_dtype(nodes, tensors[k])
        copy.input[k] = out.constant(f"{copy.name}/given_{k}", given, dtype)


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
