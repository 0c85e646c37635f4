"""Strings, gathered by what carries numbers alone: their bytes one after another, and how many each has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from autodist.graph import NodeList

__all__ = ["gathered_strings"]

_AllGather: TypeAlias = "Callable[[NodeList, str, str, str], str]"


def gathered_strings(all_gather: _AllGather, nodes: NodeList, name: str, tensor: str) -> str:
    """Add the concatenation, in rank order, along dim 0, of tensors of strings.

    Args:
        all_gather: The same of numbers: given where to add nodes, a name, a tensor and its dtype.
        nodes: Where to add nodes.
        name: Name of the result.
        tensor: This worker's strings.
    """
    flat = nodes.reshape(f"{name}/flat", tensor, [-1], "string")
    own = nodes.add("StringLength", f"{name}/lengths", [flat], unit="BYTE")
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    text = nodes.add("ReduceJoin", f"{name}/text", [flat, dim], keep_dims=False, separator="")
    content = nodes.add("DecodeRaw", f"{name}/bytes", [text], out_type="uint8", little_endian=True)
    lengths = all_gather(nodes, f"{name}/all_lengths", own, "int32")
    places = nodes.cast(f"{name}/places", all_gather(nodes, f"{name}/all_bytes", content, "uint8"), "uint8", "int32")
    letters = nodes.constant(f"{name}/letters", [bytes([k]) for k in range(256)], "string")
    spelled = nodes.add(
        "GatherV2", f"{name}/spelled", [letters, places, dim], Tparams="string", Tindices="int32", Taxis="int32"
    )
    whole = nodes.add("ReduceJoin", f"{name}/whole", [spelled, dim], keep_dims=False, separator="")
    begins = nodes.add("Cumsum", f"{name}/begins", [lengths, dim], T="int32", Tidx="int32", exclusive=True)
    strings = nodes.add("Substr", f"{name}/strings", [whole, begins, lengths], T="int32", unit="BYTE")
    return nodes.add("Reshape", name, [strings, _shape(all_gather, nodes, name, tensor)], T="string", Tshape="int32")


def _shape(all_gather: _AllGather, nodes: NodeList, name: str, tensor: str) -> str:
    """That of a worker's tensor, but with the rows of all."""
    shape = nodes.add("Shape", f"{name}/shape", [tensor], T="string", out_type="int32")
    zero, one = (nodes.constant(f"{name}/shape/{k}", [k], "int32") for k in (0, 1))
    all_of_them = nodes.constant(f"{name}/shape/size", [-1], "int32")
    own = nodes.add("Slice", f"{name}/rows", [shape, zero, one], T="int32", Index="int32")
    others = nodes.add("Slice", f"{name}/row", [shape, one, all_of_them], T="int32", Index="int32")
    counts = all_gather(nodes, f"{name}/all_rows", own, "int32")
    rows = nodes.add("Sum", f"{name}/num_rows", [counts, zero], T="int32", Tidx="int32", keep_dims=True)
    return nodes.concat(f"{name}/all_shape", [rows, others], "int32")
