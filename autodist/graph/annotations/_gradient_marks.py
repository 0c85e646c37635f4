"""Marks on gradients: where the per-replica part of a step ends and the synchronized part begins.

While a step is traced, every gradient with respect to a variable passes through an ``Identity`` that carries the
attribute :data:`MARK`. Marks are set in two places:

* on what ``tf.GradientTape.gradient`` and ``tf.gradients`` return (*early* marks). A gradient is linear in the batch
  there, so everything the user does to it afterwards (clipping by the global norm, say) sees the gradient of the global
  batch, as on one device;
* on what an optimizer is given (*late* marks), for gradients that come from elsewhere: written by hand, for one. A
  late mark on a gradient that already went through an early one is ignored by the capture.

A marked gradient may be differentiated itself (a step of an inner optimization). What comes back through the mark is
then the derivative by the gradient of the global batch, so it is marked as well.

What a gradient was taken of is marked too: whether it is a sum or a mean over the batch decides how the replicas'
gradients combine.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from autodist.graph._attribute_patches import Patches
from autodist.graph.annotations._attributes import identity_with
from autodist.graph.annotations._branches import in_control_flow, made_of
from autodist.graph.annotations._by_tensors import by_tensor, ratio

MARK = "_autodist_gradient"
"""NodeDef attribute of a marked Identity."""

TARGET = "_autodist_target"
"""NodeDef attribute of an Identity of a differentiated tensor; its value is the number of that differentiation."""

SEED = "_autodist_seed"
"""NodeDef attribute of a backward pass's initial gradient; its value is :data:`GIVEN` if the program gives that."""

GIVEN = b"given"
"""Mark of initial gradients that a program gives as ``output_gradients=``."""

SECOND = "second"
"""The part name of a second derivative through a sparse gradient's mark; its rows differ from replica to replica."""


@dataclass(frozen=True)
class GradientMark:
    """One marked tensor.

    Attributes:
        gradient: Number of the gradient it belongs to, unique within one tracing.
        part: ``dense``, ``values``, ``indices``, ``dense_shape``, ``left`` or ``right``; or :data:`SECOND`.
        late: Whether an optimizer was given it; see the module's docstring.
        target: Number of the differentiation that it comes from, -1 if that was not seen.
    """

    gradient: int
    part: str
    late: bool
    target: int = -1

    def encode(self) -> bytes:
        """The attribute's value."""
        return f"{self.gradient}|{self.part}|{int(self.late)}|{self.target}".encode()


def parse_mark(value: bytes) -> GradientMark:
    """The inverse of :meth:`GradientMark.encode`."""
    gradient, part, late, target = value.decode().split("|")
    return GradientMark(int(gradient), part, late == "1", int(target))


class GradientMarker:
    """Marks gradients and remembers the variable handle that each belongs to."""

    def __init__(self) -> None:
        self.handles: list[Any] = []
        self.depth = 0
        self.targets = 0
        self.target = -1

    @contextlib.contextmanager
    def differentiating(self, target: Any) -> Iterator[None]:
        """Mark the tensors that are differentiated inside this context."""
        import tensorflow as tf

        outer, self.target = self.target, self.targets
        self.targets += 1
        for tensor in tf.nest.flatten(target):
            if tf.is_tensor(tensor) and not tf.executing_eagerly():
                identity_with(tensor, TARGET, str(self.target).encode())
        try:
            yield
        finally:
            self.target = outer

    def gradient(self, gradient: Any, source: Any, *, late: bool) -> Any:
        """`gradient` after a mark, or as it is if nothing is being traced."""
        import tensorflow as tf

        handle = _variable_handle(source)
        if gradient is None or tf.executing_eagerly():
            return gradient
        if handle is None:
            return gradient if late or in_control_flow() else by_tensor(gradient, source, lambda: self.target)
        if late and in_control_flow():
            return self._marked_outside(gradient, handle)
        return self._marked(gradient, handle, late=late)

    def _marked_outside(self, gradient: Any, handle: Any) -> Any:
        """A gradient that an optimizer is given in a branch: marked where it comes from, if it needs to be.

        Replicas can't meet inside of a branch; where the gradient was made before, they meet there.
        """
        parts = [gradient.values, gradient.indices] if hasattr(gradient, "values") else [gradient]
        graph = parts[0].graph
        if graph is not _default_graph():
            with graph.as_default():
                return self._marked(gradient, handle, late=True)
        return (
            gradient if all(made_of(part, _is_marked) for part in parts) else self._marked(gradient, handle, late=True)
        )

    def _marked(self, gradient: Any, handle: Any, *, late: bool) -> Any:
        import tensorflow as tf

        number = len(self.handles)
        self.handles.append(handle)
        target = -1 if late else self.target
        if not isinstance(gradient, tf.IndexedSlices):
            mark = GradientMark(number, "dense", late, target)
            return self._differentiable(_shaped(tf.convert_to_tensor(gradient), handle), mark, handle)
        shape = gradient.dense_shape
        return tf.IndexedSlices(
            self._differentiable(gradient.values, GradientMark(number, "values", late, target), handle),
            _mark(gradient.indices, GradientMark(number, "indices", late, target)),
            None if shape is None else _mark(shape, GradientMark(number, "dense_shape", late, target)),
        )

    def _differentiable(self, tensor: Any, mark: GradientMark, handle: Any) -> Any:
        """A marked tensor whose own gradient is marked."""
        import tensorflow as tf

        @tf.custom_gradient
        def marked(value: Any) -> Any:
            def backward(upstream: Any) -> Any:
                if mark.part == "values":  # the capture refuses it, if the step needs it
                    return _mark(tf.convert_to_tensor(upstream), replace(mark, part=SECOND))
                return ratio(self._marked(upstream, handle, late=False), mark.target, self.target)

            return _mark(value, mark), backward

        return marked(tensor)


def _variable_handle(source: Any) -> Any:
    import tensorflow as tf

    value = getattr(source, "value", None)  # a Keras variable wraps a tf.Variable; a tf.Variable's `value` is a method
    variable = value if isinstance(value, tf.Variable) else source
    return variable.handle if isinstance(variable, tf.Variable) else None


def _shaped(gradient: Any, handle: Any) -> Any:
    """A gradient with the shape of its variable, where TensorFlow does not find it: parts of it may be wanted."""
    import tensorflow as tf

    shape = tf.TensorShape(handle._handle_data.shape_and_type[0].shape)
    if shape.is_fully_defined() and shape.is_compatible_with(gradient.shape):
        gradient.set_shape(shape)  # an op that ensures it would have all of a gradient brought together
    return gradient


def _is_marked(operation: Any) -> bool:
    return MARK in operation.node_def.attr


def _default_graph() -> Any:
    import tensorflow as tf

    return tf.compat.v1.get_default_graph()


def _mark(tensor: Any, mark: GradientMark) -> Any:
    return identity_with(tensor, MARK, mark.encode(), name=f"autodist_gradient/{mark.part}_{mark.gradient}")


_TRACING: list[GradientMarker] = []
"""The markers of the tracings that are going on."""


@contextlib.contextmanager
def mark_gradients() -> Iterator[list[Any]]:
    """Mark every gradient that is traced inside; yields the growing list of variable handles, by gradient number."""
    marker = GradientMarker()
    with Patches() as patches:
        _patch_tape(marker, patches)
        _patch_gradients(marker, patches)
        _patch_keras_optimizers(marker, patches)
        _patch_keras2_optimizers(marker, patches)
        _patch_v1_optimizers(marker, patches)
        _TRACING.append(marker)
        patches.callback(_TRACING.pop)
        yield marker.handles


def adopt_marks(handles: Sequence[Any]) -> None:
    """While a step is traced: have a graph with marks of its own be imported, before any gradient is marked.

    Args:
        handles: By the gradients' numbers in that graph, the eager handle of the variable that each belongs to.
    """
    for marker in _TRACING[-1:]:  # marks are not needed in other tracings
        assert not marker.handles, "gradients of this step were marked before"
        marker.handles.extend(handles)


def _patch_tape(marker: GradientMarker, patches: Patches) -> None:
    import tensorflow as tf

    def wrap(original: Any) -> Any:
        def gradient(tape: Any, target: Any, sources: Any, output_gradients: Any = None, **kwargs: Any) -> Any:
            def take(begin: Any) -> Any:
                return original(tape, target, sources, begin, **kwargs)

            return differentiate_with_marks(marker, take, target, sources, output_gradients)

        return gradient

    patches.replace(tf.GradientTape, "gradient", wrap)


def _patch_gradients(marker: GradientMarker, patches: Patches) -> None:
    """Patch the function behind `tf.gradients` and TensorFlow 1's optimizers; TensorFlow itself calls it elsewhere."""
    import tensorflow as tf
    from tensorflow.python.ops import gradients_impl

    def wrap(module: Any) -> Any:
        def gradients(ys: Any, xs: Any, grad_ys: Any = None, *args: Any, **kwargs: Any) -> Any:
            def take(begin: Any) -> Any:
                return module._GradientsHelper(ys, xs, begin, *args, **kwargs)

            if tf.executing_eagerly() or in_control_flow():
                return take(grad_ys)
            sources = list(xs) if isinstance(xs, list | tuple) else [xs]
            return differentiate_with_marks(marker, take, ys, sources, grad_ys)

        return SimpleNamespace(**{**vars(module), "_GradientsHelper": gradients})

    patches.replace(gradients_impl, "gradients_util", wrap)


def differentiate_with_marks(
    marker: GradientMarker, take: Callable[[Any], Any], target: Any, sources: Any, output_gradients: Any
) -> Any:
    """Differentiate with marks.

    Args:
        marker: Marks what comes out.
        take: Differentiates `target` by `sources`; its argument is the initial gradient.
        target: What is differentiated: tensors in any structure.
        sources: The variables or tensors with respect to which it is differentiated.
        output_gradients: The gradients by the target that the program has given; None for ones.
    """
    import tensorflow as tf

    # A backward pass may itself use a tape (recomputation): what that one returns is a part of a gradient.
    if marker.depth:
        return take(output_gradients)
    with marker.differentiating(target):
        begin = seeds(target, output_gradients)
        marker.depth += 1
        try:
            result = take(begin)
        finally:
            marker.depth -= 1
        flat = zip(tf.nest.flatten(result), tf.nest.flatten(sources), strict=True)
        return tf.nest.pack_sequence_as(sources, [marker.gradient(g, s, late=False) for g, s in flat])


def seeds(target: Any, given: Any = None) -> Any:
    """The initial gradients of a backward pass, marked: all nodes that depend on them are gradients and not data.

    Without the marks, a sum of gradients over the batch would be taken for a sum of data if the loss is linear in the
    model's output.

    Args:
        target: What is differentiated: tensors in any structure.
        given: The gradients by it that the program has given; None for ones.

    Returns:
        `given`, where nothing is being traced or a target is no dense tensor of floats; else a list of tensors.
    """
    import tensorflow as tf

    targets = tf.nest.flatten(target)
    dense = all(isinstance(t, tf.Tensor | tf.Variable) and (t.dtype.is_floating or t.dtype.is_complex) for t in targets)
    if tf.executing_eagerly() or not dense:
        return given
    begins = [tf.ones_like(t) for t in targets] if given is None else tf.nest.flatten(given)
    kind = b"1" if given is None else GIVEN
    return [None if b is None else identity_with(b, SEED, kind, name="autodist_seed") for b in begins]


def _subclasses(cls: Any) -> Iterator[Any]:
    yield cls
    for subclass in cls.__subclasses__():
        yield from _subclasses(subclass)


def _patch_keras_optimizers(marker: GradientMarker, patches: Patches) -> None:
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    def wrap(original: Any) -> Any:
        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None, **options: Any) -> Any:
            # Optimizers that wrap others (loss scaling) call `apply` again: only the outermost call marks.
            if marker.depth == 0:
                variables = optimizer._trainable_variables if trainable_variables is None else trainable_variables
                variables = list(variables)
                grads = [marker.gradient(g, v, late=True) for g, v in zip(grads, variables, strict=True)]
                trainable_variables = variables
            marker.depth += 1
            try:
                return original(optimizer, grads, trainable_variables, **options)
            finally:
                marker.depth -= 1

        return apply

    for cls in set(_subclasses(BaseOptimizer)):
        if "apply" in cls.__dict__:
            patches.replace(cls, "apply", wrap)


def _patch_keras2_optimizers(marker: GradientMarker, patches: Patches) -> None:
    """Keras 2's, if the program has it: the package ``tf_keras``."""
    keras2 = sys.modules.get("tf_keras")
    if keras2 is None:
        return

    def wrap(original: Any) -> Any:
        def apply_gradients(optimizer: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            if marker.depth == 0:
                pairs = [(marker.gradient(g, v, late=True), v) for g, v in pairs]
            marker.depth += 1
            try:
                return original(optimizer, pairs, *args, **kwargs)
            finally:
                marker.depth -= 1

        return apply_gradients

    roots = (keras2.optimizers.Optimizer, keras2.optimizers.legacy.Optimizer)
    for cls in {cls for root in roots for cls in _subclasses(root)}:
        if "apply_gradients" in cls.__dict__:
            patches.replace(cls, "apply_gradients", wrap)


def _patch_v1_optimizers(marker: GradientMarker, patches: Patches) -> None:
    import tensorflow as tf

    def wrap(original: Any) -> Any:
        def apply_gradients(optimizer: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            marked = [(marker.gradient(g, v, late=True), v) for g, v in grads_and_vars]
            return original(optimizer, marked, *args, **kwargs)

        return apply_gradients

    patches.replace(tf.compat.v1.train.Optimizer, "apply_gradients", wrap)


def marks_gradients(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether tracing a ``tf.function`` takes a gradient with respect to a variable."""
    with mark_gradients() as handles:
        function.get_concrete_function(*args, **kwargs)
    return bool(handles)
