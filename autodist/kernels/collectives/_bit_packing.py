"""Messages of several dtypes as words of 32 bits, the one dtype that every communicator gathers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autodist.graph import NodeList

_BYTES = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8}


def num_words(shape: Sequence[int], dtype: str) -> int:
    """How many words a tensor fills.

    Example:
        >>> num_words([5], "uint8"), num_words([5], "float64")
        (2, 10)
    """
    return -(-prod(shape) * _BYTES[dtype] // 4)


def to_words(nodes: NodeList, name: str, tensor: str, shape: Sequence[int], dtype: str) -> str:
    """A tensor's bits as a vector of int32, padded with zeros."""
    flat = nodes.reshape(f"{name}/flat", tensor, [-1], dtype)
    per_word = 4 // _BYTES[dtype]
    if per_word > 1:
        missing = num_words(shape, dtype) * per_word - prod(shape)
        padding = nodes.constant(f"{name}/padding", [0] * missing, dtype)
        padded = nodes.concat(f"{name}/padded", [flat, padding], dtype)
        flat = nodes.reshape(f"{name}/units", padded, [-1, per_word], dtype)
    bits = flat if dtype == "int32" else nodes.add("Bitcast", f"{name}/bits", [flat], T=dtype, type="int32")
    return nodes.reshape(name, bits, [-1], "int32")


def from_words(nodes: NodeList, name: str, words: str, shape: Sequence[int], dtype: str) -> str:
    """Undo :func:`to_words` for each row of a matrix: ``[n, words]`` to ``[n, *shape]``."""
    size = num_words(shape, dtype)
    units = nodes.reshape(f"{name}/units", words, [-1, size // 2, 2] if _BYTES[dtype] == 8 else [-1, size], "int32")
    bits = units if dtype == "int32" else nodes.add("Bitcast", f"{name}/bits", [units], T="int32", type=dtype)
    rows = nodes.reshape(f"{name}/rows", bits, [-1, size * 4 // _BYTES[dtype]], dtype)
    begin = nodes.constant(f"{name}/begin", [0, 0], "int32")
    wanted = nodes.constant(f"{name}/wanted", [-1, prod(shape)], "int32")
    whole = nodes.add("Slice", f"{name}/whole", [rows, begin, wanted], T=dtype, Index="int32")
    return nodes.reshape(name, whole, [-1, *shape], dtype)
