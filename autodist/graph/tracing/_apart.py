"""Functions of TensorFlow that keep examples apart, although their operators do not show it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from autodist.graph._attribute_patches import Patches
from autodist.graph.annotations import attributed
from autodist.graph.batch import APART


@contextlib.contextmanager
def known_to_keep_apart() -> Iterator[None]:
    """Mark the operators of such functions in the code that is traced inside.

    CTC's loss counts through the labels of the whole batch; frames and counts along the last dim use numbers that are
    computed from the whole shape. A layer that makes numbers of texts splits all of them into one list of words, one
    that crosses features makes a sparse tensor on the way. Sampled classes are compared with the labels of the whole
    batch.
    """
    import keras
    import tensorflow as tf
    from tensorflow.python.ops import bincount_ops, ctc_ops, nn_impl
    from tensorflow.python.ops.signal import shape_ops

    found = (
        (ctc_ops, "ctc_loss_dense", None),
        (shape_ops, "frame", "axis"),
        (tf.signal, "frame", "axis"),
        (bincount_ops, "bincount", "axis"),
        (tf.math, "bincount", "axis"),
    )
    with Patches() as patches:
        for owner, name, axis in found:
            patches.replace(owner, name, _along_last_dim(axis))
        patches.replace(nn_impl, "_compute_sampled_logits", _of_given_samples)
        patches.replace(keras.layers.TextVectorization, "call", _of_fixed_length)
        patches.replace(keras.layers.HashedCrossing, "call", lambda call: with_attribute(call, APART))
        yield


def _along_last_dim(axis: str | None) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        apart, parameters = with_attribute(original, APART), inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            is_last = axis is None or (isinstance(bound.arguments[axis], int) and bound.arguments[axis] == -1)
            return (apart if is_last else original)(*args, **kwargs)

        return call

    return wrap


def _of_given_samples(original: Any) -> Any:
    """A sampled loss that keeps examples apart if the samples are given; else each replica draws its own."""
    apart, parameters = with_attribute(original, APART), inspect.signature(original)

    def call(*args: Any, **kwargs: Any) -> Any:
        is_given = parameters.bind(*args, **kwargs).arguments.get("sampled_values") is not None
        return (apart if is_given else original)(*args, **kwargs)

    return call


def _of_fixed_length(original: Any) -> Any:
    """A function that keeps examples apart unless it pads to the longest text, which differs between replicas."""
    apart = with_attribute(original, APART)

    def call(layer: Any, inputs: Any) -> Any:
        is_fixed = layer._output_mode != "int" or (layer._output_sequence_length is not None and not layer._ragged)
        return (apart if is_fixed else original)(layer, inputs)

    return call


def with_attribute(function: Any, attribute: str) -> Any:
    """A function all of whose operators have an attribute."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        if tf.executing_eagerly():
            return function(*args, **kwargs)
        with attributed(attribute, b"1"):
            return function(*args, **kwargs)

    return call
