"""Error feedback: the part of a gradient that a message loses is added to the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autodist.compressors._base import Channel, Exchanged

if TYPE_CHECKING:
    from autodist.graph import NodeList


def with_feedback(
    nodes: NodeList,
    name: str,
    gradient: str,
    shape: Sequence[int],
    dtype: str,
    channel: Channel,
    exchange: Callable[[str], Exchanged],
) -> Exchanged:
    """Exchange the gradient plus the residual of the step before.

    Summed over the steps, what this worker has contributed is the sum of its gradients minus its last residual.

    Args:
        nodes: Where to add nodes.
        name: Prefix of their names.
        gradient: This worker's gradient.
        shape: Shape of the gradient.
        dtype: Dtype of the gradient.
        channel: Keeps the residual.
        exchange: Sends a corrected gradient.
    """
    dims = nodes.constant(f"{name}/residual/dims", list(shape), "int32")
    zero = nodes.constant(f"{name}/residual/zero", 0, dtype)
    initial = nodes.add("Fill", f"{name}/residual/initial", [dims, zero], T=dtype, index_type="int32")
    residual = channel.state("residual", initial, dtype, shape)
    corrected = nodes.add("AddV2", f"{name}/corrected", [gradient, residual], T=dtype)
    exchanged = exchange(corrected)
    channel.keep("residual", nodes.add("Sub", f"{name}/lost", [corrected, exchanged.own], T=dtype))
    return exchanged
