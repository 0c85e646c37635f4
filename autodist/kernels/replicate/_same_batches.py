"""Guards of a step: it fails before it changes anything if the workers have different batches."""

from __future__ import annotations

from collections.abc import Callable

from autodist.graph import NodeList

BATCHES = "autodist/batches"
"""The placeholder of two numbers that represent the batch."""

DIFFERENT_BATCHES = "autodist: the workers have different batches"
"""The message of the error that ends such a step."""


def compare_batches(out: NodeList, world_size: int, after: str, joined: Callable[[str, str], str]) -> str:
    """Add a check that the numbers of all workers are equal: the sum is a multiple of each worker's own.

    Args:
        out: Where to add nodes.
        world_size: Number of workers.
        after: The node that the numbers wait for, so that they travel with other state.
        joined: Adds the sum of a pair over all workers; takes a label and the pair.

    Returns:
        The node that fails if they are not equal; nodes that must not run in that case have to wait for it.
    """
    unknown = out.constant(f"{BATCHES}/unknown", [0.0, 0.0], "float32")
    own = out.add("PlaceholderWithDefault", BATCHES, [unknown], dtype="float32", shape=[2])
    local = out.add("Identity", f"{BATCHES}/local", [own, f"^{after}"], T="float32")
    everywhere = joined("batches", local)
    workers = out.constant(f"{BATCHES}/workers", float(world_size), "float32")
    expected = out.add("Mul", f"{BATCHES}/expected", [own, workers], T="float32")
    equal = out.add("Equal", f"{BATCHES}/equal", [everywhere, expected], T="float32")
    dim = out.constant(f"{BATCHES}/dim", [0], "int32")
    same = out.add("All", f"{BATCHES}/all", [equal, dim], Tidx="int32", keep_dims=False)
    told = out.constant(f"{BATCHES}/told", DIFFERENT_BATCHES, "string")
    return out.add("Assert", f"{BATCHES}/same", [same, told], T=["string"])
