"""Training inside a scope that does not ask for it: ``tf.function``s and optimizers, intercepted while it is open."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from autodist.errors import CaptureError
from autodist.graph import NoGradientError, Patches, marks_gradients
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime.data import Declared, has_parts, is_pass
from autodist.runtime.hooks._eager_updates import eagerly_alike

_KERAS = ("keras.", "tf_keras.")
"""Modules whose functions train only through ``fit``."""


def hook_functions(patches: Patches, engine: Engine | ReferenceEngine) -> None:
    """Capture every ``tf.function`` that trains; all others run as they are, on whole batches."""
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    others = _OtherFunctions(engine)

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            plain = functools.partial(original, function, *args, **kwargs)
            if not context.executing_eagerly() or engine.runs_plainly:
                return plain()
            if not others.known(function) and not others.is_other(function, args, kwargs):
                try:
                    given = _as_declared(function, args, kwargs)
                    relaxes = bool(function._reduce_retracing)
                    declared = Declared.of(function.input_signature, at_once=True, relaxes=relaxes)
                    return engine.run(function.python_function, *given, plain, declared=declared)
                except NoGradientError:
                    others.add(function)
            if engine.worker.world_size > 1 and has_parts(args, kwargs):
                return engine.run_untrained(function.python_function, args, kwargs)
            return plain()

        return call

    patches.replace(Function, "__call__", wrap)


def _as_declared(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the dtypes of the function's ``input_signature``, if it has one."""
    import tensorflow as tf

    signature = function.input_signature
    if signature is None or len(signature) != len(args):
        return args, kwargs

    def declared(spec: Any, value: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec) or tf.is_tensor(value):
            return value
        if isinstance(value, np.ndarray):
            return value.astype(spec.dtype.as_numpy_dtype, copy=False)
        return tf.convert_to_tensor(value, spec.dtype)

    return tuple(map(declared, signature, args)), kwargs


class _OtherFunctions:
    """The functions of a scope that do not train, or take their batches from an iterator on one device."""

    def __init__(self, engine: Engine | ReferenceEngine) -> None:
        self._engine = engine
        self._functions: dict[int, Any] = {}

    def known(self, function: Any) -> bool:
        return id(function) in self._functions

    def add(self, function: Any) -> None:
        self._functions[id(function)] = function  # keeps it alive, so that its id stays its own

    def is_other(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it is clear without a capture that the function does not train.

        Raises:
            CaptureError: It trains, but takes an argument that can't be split, such as an iterator.
        """
        import tensorflow as tf

        module = getattr(function.python_function, "__module__", "") or ""
        iterator = _iterator_among(args, kwargs)
        if any(map(is_pass, tf.nest.flatten((args, kwargs)))):
            raise _takes_iterator(function, "an iterator over a sharded dataset")
        if module.startswith((*_KERAS, "tensorflow.")) or iterator is not None:
            splits = iterator is not None and self._engine.num_replicas > 1 and not module.startswith(_KERAS)
            if splits and _trains(function, args, kwargs):
                raise _takes_iterator(function, f"a {type(iterator).__name__}")
            self.add(function)
            return True
        return False


def _takes_iterator(function: Any, what: str) -> CaptureError:
    return CaptureError(
        f"the training step `{getattr(function, '__name__', function)}` takes {what}",
        hint="pass it the batch: `for x, y in ad.shard(dataset): step(x, y)`",
    )


def _iterator_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import tensorflow as tf

    kinds = (tf.data.Iterator, tf.data.Dataset, tf.distribute.DistributedIterator)
    return next((leaf for leaf in tf.nest.flatten((args, kwargs)) if isinstance(leaf, kinds)), None)


def _trains(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether tracing the function takes a gradient."""
    import tensorflow as tf

    return marks_gradients(tf.function(function.python_function), args, kwargs)


def hook_optimizers(patches: Patches, engine: Engine | ReferenceEngine) -> None:
    """Check that optimizer steps which run eagerly are the same on all workers: nothing is exchanged in them."""
    import tensorflow as tf
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    patches.replace(BaseOptimizer, "apply", eagerly_alike(engine))
    patches.replace(tf.compat.v1.train.Optimizer, "apply_gradients", eagerly_alike(engine))
