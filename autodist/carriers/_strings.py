"""Gathers strings with a carrier of numbers: as bytes, in the form in which TensorFlow writes tensors into files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from autodist.graph import NodeList

_AllGather: TypeAlias = "Callable[[NodeList, str, str, str], str]"

_OF_STRINGS = bytes([0x08, 7])
"""In a `TensorProto`: ``dtype``, strings."""
_ONE_DIM = bytes([0x12, 8, 0x12, 6, 0x08])
"""In a `TensorProto`: ``tensor_shape`` of one dim, whose size follows, a number of five bytes."""
_STRING = bytes([0x42])
"""In a `TensorProto`: one of ``string_val``; its length follows, and then its bytes."""
_PLACES = (0, 7, 14, 21, 28)


def gathered_strings(all_gather: _AllGather, nodes: NodeList, name: str, tensor: str) -> str:
    """Add the concatenation, in rank order, along dim 0, of tensors of strings.

    Each worker sends its strings, each preceded by its length, as in a `TensorProto`. So TensorFlow can parse all of
    them at once, and no node has to look at single bytes or to cut a long string.

    Args:
        all_gather: Adds the concatenation of tensors of numbers; takes the nodes, a name, a tensor and its dtype.
        nodes: Where to add nodes.
        name: Name of the result.
        tensor: This worker's strings.
    """
    flat = nodes.reshape(f"{name}/flat", tensor, [-1], "string")
    lengths = nodes.add("StringLength", f"{name}/lengths", [flat], unit="BYTE")
    fields = [nodes.constant(f"{name}/field", _STRING, "string"), _number(nodes, f"{name}/length", lengths), flat]
    records = nodes.add("StringJoin", f"{name}/records", fields, N=len(fields), separator="")
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    text = nodes.add("ReduceJoin", f"{name}/text", [records, dim], keep_dims=False, separator="")
    content = nodes.add("DecodeRaw", f"{name}/bytes", [text], out_type="uint8", little_endian=True)
    of_all = _text(nodes, f"{name}/all_text", all_gather(nodes, f"{name}/all_bytes", content, "uint8"))
    shape = _shape(all_gather, nodes, name, tensor)
    dims = nodes.constant(f"{name}/dims", [0], "int32")
    count = nodes.add("Prod", f"{name}/count", [shape, dims], T="int32", Tidx="int32", keep_dims=False)
    head = nodes.constant(f"{name}/head", _OF_STRINGS + _ONE_DIM, "string")
    parts = [head, _number(nodes, f"{name}/counted", count), of_all]
    written = nodes.add("StringJoin", f"{name}/written", parts, N=len(parts), separator="")
    strings = nodes.add("ParseTensor", f"{name}/strings", [written], out_type="string")
    return nodes.add("Reshape", name, [strings, shape], T="string", Tshape="int32")


def _number(nodes: NodeList, name: str, numbers: str) -> str:
    """Whole numbers as varints: seven bits in each byte, the low ones first, the last byte below 128."""
    last = nodes.constant(f"{name}/last", -1, "int32")
    places, bits, more = (
        nodes.constant(f"{name}/{what}", values, "int32")
        for what, values in (("places", _PLACES), ("bits", 127), ("more", [128] * 4 + [0]))
    )
    each = nodes.add("ExpandDims", f"{name}/each", [numbers, last], T="int32", Tdim="int32")
    shifted = nodes.add("RightShift", f"{name}/shifted", [each, places], T="int32")
    low = nodes.add("BitwiseAnd", f"{name}/low", [shifted, bits], T="int32")
    found = nodes.add("BitwiseOr", f"{name}/found", [low, more], T="int32")
    letters = nodes.constant(f"{name}/letters", [bytes([k]) for k in range(256)], "string")
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    kinds = {"Tparams": "string", "Tindices": "int32", "Taxis": "int32"}
    spelled = nodes.add("GatherV2", f"{name}/spelled", [letters, found, dim], **kinds)
    return nodes.add("ReduceJoin", name, [spelled, last], keep_dims=False, separator="")


def _text(nodes: NodeList, name: str, content: str) -> str:
    """Bytes as one string: TensorFlow serializes them, and the serialized text ends with them."""
    written = nodes.add("SerializeTensor", f"{name}/written", [content], T="uint8")
    size = nodes.add("Size", f"{name}/size", [content], T="uint8", out_type="int32")
    begin = nodes.add("Neg", f"{name}/begin", [size], T="int32")
    return nodes.add("Substr", name, [written, begin, size], T="int32", unit="BYTE")


def _shape(all_gather: _AllGather, nodes: NodeList, name: str, tensor: str) -> str:
    """The shape of a worker's tensor, but with the number of all workers' rows."""
    shape = nodes.add("Shape", f"{name}/shape", [tensor], T="string", out_type="int32")
    zero, one = (nodes.constant(f"{name}/shape/{k}", [k], "int32") for k in (0, 1))
    all_of_them = nodes.constant(f"{name}/shape/size", [-1], "int32")
    own = nodes.add("Slice", f"{name}/rows", [shape, zero, one], T="int32", Index="int32")
    others = nodes.add("Slice", f"{name}/row", [shape, one, all_of_them], T="int32", Index="int32")
    counts = all_gather(nodes, f"{name}/all_rows", own, "int32")
    rows = nodes.add("Sum", f"{name}/num_rows", [counts, zero], T="int32", Tidx="int32", keep_dims=True)
    return nodes.concat(f"{name}/all_shape", [rows, others], "int32")
