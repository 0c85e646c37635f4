"""Random numbers that are the same on all workers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from autodist.graph import NodeList

_PHILOX = 1


def seed_mistakes(seed: object) -> list[str]:
    """The mistake in a seed, as a list of one line; empty if it is right."""
    good = type(seed) is int and 0 <= seed < 2**32
    return [] if good else [f"`seed` is {seed!r}, allowed: a whole number from 0 to 2^32 - 1"]


def random_tensor(
    nodes: NodeList,
    name: str,
    shape: Sequence[int],
    seed: int,
    step: str,
    *,
    op: Literal["StatelessRandomUniformV2", "StatelessRandomNormalV2"],
) -> str:
    """A float32 tensor that depends on the seed, the name and the step (an int64 scalar), and on nothing else."""
    key = nodes.constant(f"{name}/key", [seed << 32 | zlib.crc32(name.encode())], "uint64")
    # The generator counts up from the first number of the counter, so steps differ in the second.
    zero = nodes.constant(f"{name}/zero", [0], "int64")
    counted = nodes.concat(f"{name}/counted", [zero, nodes.reshape(f"{name}/step", step, [1], "int64")], "int64")
    counter = nodes.cast(f"{name}/counter", counted, "int64", "uint64")
    dims = nodes.constant(f"{name}/dims", list(shape), "int32")
    philox = nodes.constant(f"{name}/philox", _PHILOX, "int32")
    return nodes.add(op, name, [dims, key, counter, philox], dtype="float32", Tshape="int32")
