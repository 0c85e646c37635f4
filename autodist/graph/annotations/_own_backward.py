"""Marks the nodes of gradients that a program computes by functions of its own (``tf.custom_gradient``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autodist.graph._attribute_patches import Patches
from autodist.graph.annotations._attributes import attributed

OWN_BACKWARD = "_autodist_own_backward"
"""NodeDef attribute of the nodes of a function that ``tf.custom_gradient`` calls in the backward pass."""

_KNOWN = ("tensorflow.", "keras.", "tf_keras.", "autodist.")
"""Where functions come from that are linear in what comes from above, example by example."""


@contextlib.contextmanager
def mark_own_gradients() -> Iterator[None]:
    """Have the nodes of such functions carry :data:`OWN_BACKWARD` in what is traced inside."""
    from tensorflow.python.ops import custom_gradient

    def wrap(original: Any) -> Any:
        def decorate(function: Any, args: Any, kwargs: Any) -> Any:
            return original(_with_marked_gradient(function), args, kwargs)

        return decorate

    with Patches() as patches:
        patches.replace(custom_gradient, "_graph_mode_decorator", wrap)
        yield


def _with_marked_gradient(function: Any) -> Any:
    from tensorflow.python.util import tf_decorator

    def forward(*args: Any) -> Any:
        result, gradient = function(*args)
        if str(getattr(gradient, "__module__", None)).startswith(_KNOWN):
            return result, gradient

        def backward(*args: Any, **kwargs: Any) -> Any:
            with attributed(OWN_BACKWARD, b"1"):
                return gradient(*args, **kwargs)

        return result, tf_decorator.make_decorator(gradient, backward)  # TensorFlow looks at the arguments' names

    return tf_decorator.make_decorator(function, forward)
