"""Joins inside a step: values that replicas compute together, as synchronized batch normalization does.

While a step is traced, such a value passes through an ``Identity`` that carries the attribute :data:`JOIN`. On one
device it changes nothing. Where there are replicas, a :data:`Join.EACH` brings all replicas' values to each of them;
what comes back to it is a :data:`Join.GRADIENT`, the gradient of the whole batch.
"""

from __future__ import annotations

import enum
from typing import Any

from autodist.graph.annotations._attributes import identity_with

__all__ = ["JOIN", "Join", "join_of", "joined"]

JOIN = "_autodist_join"
"""NodeDef attribute of a joined Identity."""


class Join(enum.Enum):
    """What the replicas' values of a tensor become."""

    EACH = "each"
    """Those of all replicas: a row for each, along dim 0. Rows of zeros stand for those without examples."""
    OWN = "own"
    """What they are: a sum over the batch of what follows is the replica's own, even if no gradient flows through."""
    GRADIENT = "gradient"
    """What they are as gradients of the loss: their sum or, of a loss that is a mean, their average by batch share."""
    SHARE = "share"
    """No sum: the weight that each replica's gradients will be multiplied with; 1 on one device."""
    SECOND = "second"
    """A second derivative, which is refused."""


def joined(tensor: Any, kind: Join) -> Any:
    """`tensor` behind a join. It can't be differentiated through, unless the step does not need the result."""
    import tensorflow as tf

    @tf.custom_gradient
    def behind(value: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return _identity(upstream, Join.SECOND)

        return _identity(value, kind), backward

    return behind(tensor)


def join_of(node: Any) -> Join | None:
    """Which kind of join a node is, if it is one."""
    return Join(node.attr[JOIN].s.decode()) if JOIN in node.attr else None


def _identity(tensor: Any, kind: Join) -> Any:
    return identity_with(tensor, JOIN, kind.value.encode(), name=f"autodist_join/{kind.value}")
