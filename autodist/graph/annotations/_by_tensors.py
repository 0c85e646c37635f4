"""Gradients with respect to tensors that are not variables: inputs, activations, or what weights were made into.

A replica differentiates a loss of its own examples. In a mean over them, each has a larger part than in the mean over
the whole batch, so a gradient with a row per example is multiplied with the weight that the replica's gradients have:
its share of the batch, or 1 for a sum. With respect to a tensor that is the same for all examples, each replica has a
part of the gradient: the parts are joined, as gradients with respect to variables are.

While a step is traced, such a gradient passes through an ``IdentityN`` together with what it was taken by; the
attribute :data:`BY` names the differentiation. The nodes after it treat the gradient as ordinary data. On one device
nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from autodist.graph.annotations._attributes import attributed, identity_with
from autodist.graph.annotations._branches import in_control_flow
from autodist.graph.batch import BY

INSIDE = "_autodist_inside"
"""NodeDef attribute of what flows back through a gradient by a tensor, inside of a branch or a loop; its value is the
number of the differentiation. Nothing can be multiplied there with a replica's share."""

RATIO = "_autodist_ratio"
"""NodeDef attribute of a gradient that is multiplied with the ratio of two differentiations' weights."""


class TensorGradient(NamedTuple):
    """A gradient with respect to a tensor.

    Attributes:
        target: Number of the differentiation.
        is_returned: Whether the program gets it; else it belongs to the backward pass of another differentiation.
    """

    target: int
    is_returned: bool

    def encode(self) -> bytes:
        """The value of the attribute :data:`BY`."""
        return f"{self.target}|{int(self.is_returned)}".encode()


class NestedDifferentiation(NamedTuple):
    """Numbers of two differentiations, of which the second went through the first one's gradient."""

    inner: int
    outer: int

    def encode(self) -> bytes:
        """The value of the attribute :data:`RATIO`."""
        return f"{self.inner}|{self.outer}".encode()


def by_of(node: Any) -> TensorGradient | None:
    """The facts about a node that is a gradient by a tensor; None for others."""
    if BY not in node.attr:
        return None
    target, returned = node.attr[BY].s.decode().split("|")
    return TensorGradient(int(target), returned == "1")


def ratio_of(node: Any) -> NestedDifferentiation | None:
    """For a node at which a weight is exchanged for another, the two differentiations."""
    return NestedDifferentiation(*map(int, node.attr[RATIO].s.decode().split("|"))) if RATIO in node.attr else None


def by_tensor(gradient: Any, source: Any, current: Callable[[], int]) -> Any:
    """Pass a gradient through a node that also takes the tensor with respect to which it was taken.

    Args:
        gradient: The result of a differentiation.
        source: A tensor, perhaps ragged.
        current: The number of the differentiation that goes on.
    """
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_known(gradient.values, source, current), gradient.indices, gradient.dense_shape)
    if isinstance(gradient, tf.RaggedTensor):
        return gradient.with_flat_values(by_tensor(gradient.flat_values, source.flat_values, current))
    return _known(gradient, source, current) if isinstance(gradient, tf.Tensor) else gradient


def _known(gradient: Any, source: Any, current: Callable[[], int], *, is_returned: bool = True) -> Any:
    import tensorflow as tf

    target = current()

    @tf.custom_gradient
    def known(value: Any, taken_by: Any) -> Any:
        def backward(upstream: Any) -> Any:
            if in_control_flow():
                return identity_with(upstream, INSIDE, str(target).encode(), name="autodist_inside"), None
            part = _known(tf.convert_to_tensor(upstream), taken_by, current, is_returned=False)
            return ratio(part, target, current()), None

        with attributed(BY, TensorGradient(target, is_returned).encode()):
            return tf.identity_n([value, taken_by], name="autodist_by_tensor")[0], backward

    return known(gradient, source)


def ratio(tensor: Any, inner: int, outer: int) -> Any:
    """The gradient that flows back through one of the whole batch, to be multiplied with the weight of the outer one.

    A replica's part of the inner gradient was multiplied with a weight of its own, which may be another.
    """
    import tensorflow as tf

    if inner < 0 or outer < 0:
        return tensor

    @tf.custom_gradient
    def exchanged(value: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return ratio(upstream, inner, outer)

        return identity_with(
            value, RATIO, NestedDifferentiation(inner, outer).encode(), name="autodist_ratio"
        ), backward

    return exchanged(tensor)
