"""Marks on the gradients of a TensorFlow 1 graph, which is built before it is known which nodes will be run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._attribute_patches import Patches
from autodist.graph.annotations._gradient_marks import GradientMarker, differentiate_with_marks


@contextlib.contextmanager
def mark_v1_gradients() -> Iterator[list[Any]]:
    """Mark every gradient that is added to a graph other than that of a function.

    Yields:
        The growing list of variable handles, tensors of that graph, by gradient number.
    """
    marker = GradientMarker()
    with Patches() as patches:
        _patch_gradients(marker, patches)
        _patch_optimizers(marker, patches)
        yield marker.handles


def _patch_gradients(marker: GradientMarker, patches: Patches) -> None:
    """Patch the function that `tf.gradients` and the optimizers' `compute_gradients` both call."""
    from tensorflow.python.ops import gradients_util

    def wrap(original: Any) -> Any:
        def gradients(ys: Any, xs: Any, grad_ys: Any = None, *args: Any, **kwargs: Any) -> Any:
            def take(begin: Any) -> Any:
                return original(ys, xs, begin, *args, **kwargs)

            if marker.depth or not _is_building_graph():
                return take(grad_ys)
            sources = list(xs) if isinstance(xs, list | tuple) else [xs]
            _check_resources(sources)
            return differentiate_with_marks(marker, take, ys, sources, grad_ys)

        return gradients

    patches.replace(gradients_util, "_GradientsHelper", wrap)


def _patch_optimizers(marker: GradientMarker, patches: Patches) -> None:
    import tensorflow as tf

    def wrap(original: Any) -> Any:
        def apply_gradients(optimizer: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            if _is_building_graph():
                _check_resources([variable for _, variable in pairs])
                pairs = [(marker.gradient(g, v, late=True), v) for g, v in pairs]
            return original(optimizer, pairs, *args, **kwargs)

        return apply_gradients

    patches.replace(tf.compat.v1.train.Optimizer, "apply_gradients", wrap)


def _check_resources(variables: Iterable[Any]) -> None:
    from tensorflow.python.ops.ref_variable import RefVariable

    found = [variable.op.name for variable in variables if isinstance(variable, RefVariable)]
    if found:
        raise CaptureError(
            f"{', '.join(f'`{name}`' for name in found)} are reference variables, allowed: resource variables",
            hint="call `tf.compat.v1.enable_resource_variables()` after `disable_v2_behavior()`, or give `use_resource"
            "=True`",
        )


def _is_building_graph() -> bool:
    import tensorflow as tf

    return not tf.executing_eagerly() and not tf.compat.v1.get_default_graph().building_function
