"""Packing: small tensors that go from one device to another at one time travel as one message.

A message costs its sender and its receiver processor time whatever its size, and many variables are small: biases,
scales of normalizations, the layers near the loss. Each server sends their values to a worker in one piece, and each
worker their gradients to the server. Only bits are moved; what a step computes stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autodist.graph import NodeList

__all__ = ["Parcel", "packed", "small_parcel", "small_parcels"]


@dataclass(frozen=True)
class Parcel:
    """A tensor that is to travel.

    Attributes:
        tensor: Its name.
        dtype: TensorFlow's name of its type.
        shape: Its static shape.
        size_bytes: Of its elements.
    """

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def small_parcel(tensor: str, dtype: str, shape: Sequence[int | None] | None, limit_bytes: int) -> Parcel | None:
    """The parcel of a tensor that is known to be so small that it should not travel alone; None of any other."""
    import tensorflow as tf

    kind = tf.as_dtype(dtype)
    sizes = tuple(size for size in shape or () if size is not None)
    if shape is None or len(sizes) < len(shape) or not (kind.is_floating or kind.is_integer):
        return None
    size_bytes = prod(sizes) * int(kind.size)
    return Parcel(tensor, dtype, sizes, size_bytes) if size_bytes <= limit_bytes else None


def small_parcels(
    tensors: Iterable[str], dtypes: Iterable[str], shapes: Iterable[Sequence[int | None] | None], limit_bytes: int
) -> list[Parcel]:
    """The parcels of those of some tensors that are so small."""
    every = (small_parcel(*one, limit_bytes) for one in zip(tensors, dtypes, shapes, strict=True))
    return [parcel for parcel in every if parcel is not None]


def packed(
    nodes: NodeList, name: str, parcels: Iterable[Parcel], source: str, target: str, limit_bytes: int
) -> Mapping[str, str]:
    """Add the nodes that bring tensors from one device to another, those of one dtype together.

    Args:
        nodes: Where to add nodes.
        name: Their names begin with it.
        parcels: What is to travel, in the order in which it is there, or needed.
        source: The device that they leave from.
        target: The device where they are taken apart.
        limit_bytes: How large a message may be, so that what comes first need not wait for all.

    Returns:
        By tensor, what arrives of it; nothing for one that has no company.
    """
    arrived: dict[str, str] = {}
    for number, together in enumerate(_messages(parcels, limit_bytes)):
        if len(together) > 1:
            arrived |= _packed(nodes, f"{name}/{number}", together, source, target)
    return arrived


def _messages(parcels: Iterable[Parcel], most_bytes: int) -> list[list[Parcel]]:
    """Which of them travel together: of each dtype, the message with the most room stays open for the next."""
    messages: list[list[Parcel]] = []
    open_of: dict[str, list[Parcel]] = {}
    filled: dict[str, int] = {}
    for parcel in {parcel.tensor: parcel for parcel in parcels}.values():
        dtype, size = parcel.dtype, parcel.size_bytes
        if dtype in open_of and filled[dtype] + size <= most_bytes:
            open_of[dtype].append(parcel)
            filled[dtype] += size
            continue
        messages.append([parcel])
        if size <= filled.get(dtype, size):
            open_of[dtype], filled[dtype] = messages[-1], size
    return messages


def _packed(nodes: NodeList, name: str, parcels: Sequence[Parcel], source: str, target: str) -> dict[str, str]:
    dtype = parcels[0].dtype
    nodes.device = source
    flat = [nodes.reshape(f"{name}/flat_{k}", p.tensor, [-1], dtype) for k, p in enumerate(parcels)]
    message = nodes.concat(f"{name}/message", flat, dtype)
    nodes.device = target
    sizes = nodes.constant(f"{name}/sizes", [prod(parcel.shape) for parcel in parcels], "int32")
    dim = nodes.constant(f"{name}/split_dim", 0, "int32")
    inputs = [message, sizes, dim]
    parts = nodes.add("SplitV", f"{name}/parts", inputs, T=dtype, Tlen="int32", num_split=len(parcels))
    return {
        parcel.tensor: nodes.reshape(f"{name}/arrived_{k}", f"{parts}:{k}", parcel.shape, dtype)
        for k, parcel in enumerate(parcels)
    }
