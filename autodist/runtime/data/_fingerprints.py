"""Whether all workers have the same batch: each of them hashes what it was given.

A hash costs far less than a step: what is large is added up in columns, at the speed of the memory, and only the sums
are hashed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autodist.runtime.data._arguments import Arguments

_COLUMNS = 1021
"""A prime, so that rows of examples which change places are added to other columns."""
_PLAIN = bool | int | float | complex | str | bytes
_MOST_NAMES = 100_000
_SMALL_BYTES = 16 * 1024
_FLOAT_BITS = 24
"""Whole numbers of this many bits are exact in float32."""


def fingerprint_of(arguments: Arguments, *, own: bool) -> int:
    """A hash of those arguments of a step that must be the same on all workers.

    Args:
        arguments: Those of a call.
        own: Whether each worker brings a batch of its own.
    """
    found: list[int] = []
    for array, is_split, is_part, note in zip(
        arguments.arrays, arguments.split, arguments.parts, arguments.notes, strict=True
    ):
        if note is not None:  # taken of the global batch, where the dataset was cut
            found.extend([note] if note not in found else [])
        elif not is_split or not (is_part or own or arguments.is_local):
            found.append(hashed(array))
    plain = [] if own else [value for value in arguments.static if isinstance(value[1], _PLAIN)]
    return _number([*(value.to_bytes(8, "little") for value in found), repr(plain).encode()])


def hashed(array: np.ndarray) -> int:
    """A hash of an array's type, shape and contents."""
    if array.dtype.kind == "O":
        content = repr(array.tolist()).encode()
    else:
        content = _content(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return _number([str((array.dtype.str, array.shape)).encode(), content])


def _content(octets: np.ndarray) -> bytes:
    """The bytes, or, of many, their sums in columns."""
    if len(octets) <= _SMALL_BYTES:
        return octets.tobytes()
    end = len(octets) // (8 * _COLUMNS) * 8 * _COLUMNS
    sums: np.ndarray = np.add.reduce(octets[:end].view(np.uint64).reshape(-1, _COLUMNS), axis=0)
    return bytes(sums) + octets[end:].tobytes()


def _number(parts: Iterable[bytes]) -> int:
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        found.update(part)
    return int.from_bytes(found.digest(), "little") >> 1


def hashed_in_graph(tensors: Sequence[Any]) -> Any:
    """A hash of tensors, in a function of an input pipeline: row by row, without a copy."""
    import tensorflow as tf

    contents = []
    for tensor in tensors:
        rows = tf.fingerprint(tensor if tensor.shape.rank else tf.reshape(tensor, [-1]))
        contents += [tf.io.serialize_tensor(part) for part in (tf.shape(tensor), rows)]
    return tf.strings.to_hash_bucket_fast(tf.strings.join(contents or [tf.constant("")]), 2**62)


def can_be_hashed(dataset: Any) -> bool:
    """Whether all parts of a dataset's elements consist of numbers and texts."""
    import tensorflow as tf

    specs = tf.nest.flatten(dataset.element_spec, expand_composites=True)
    return all(isinstance(spec, tf.TensorSpec) and spec.dtype not in (tf.variant, tf.resource) for spec in specs)


def hashed_block(block: Any, size: int, left_out: Sequence[bool]) -> Any:
    """A hash of a dataset of a few elements, in a function of an input pipeline.

    Args:
        block: The dataset.
        size: How many elements it has at most.
        left_out: Per part of an element, whether it does not count.
    """
    import tensorflow as tf

    def kept(element: Any) -> Sequence[Any]:
        parts = zip(tf.nest.flatten(element), left_out, strict=True)
        found: Sequence[Any] = tf.nest.flatten([part for part, is_out in parts if not is_out], expand_composites=True)
        return found

    @tf.autograph.experimental.do_not_convert
    def add(known: Any, *element: Any) -> Any:
        return 31 * known + hashed_in_graph([tensor[None] for tensor in kept(element)])

    specs = tf.nest.flatten(block.element_spec)
    if all(isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() for spec in specs):
        return hashed_in_graph(kept(block.batch(size).get_single_element()))  # many times faster than one by one
    return block.reduce(tf.constant(0, tf.int64), add)


def chained(known: int, following: int) -> int:
    """A hash of two hashes, in this order."""
    return _number(value.to_bytes(8, "little", signed=True) for value in (known, following))


def hashed_names(files: Any) -> int:
    """A hash of the names of files as they are listed, before anything shuffles them; directories may differ."""
    while files._inputs():
        files = files._inputs()[0]
    names = (os.path.basename(name) for name in files.take(_MOST_NAMES).as_numpy_iterator())
    return _number(os.fsencode(name) + b"\n" for name in names)


def as_floats(fingerprint: int, world_size: int) -> np.ndarray:
    """Two numbers that represent a hash, and whose sums over all workers are exact in float32."""
    bits = _FLOAT_BITS - (world_size - 1).bit_length()
    return np.array([fingerprint & ((1 << bits) - 1), fingerprint >> 31 & ((1 << bits) - 1)], np.float32)
