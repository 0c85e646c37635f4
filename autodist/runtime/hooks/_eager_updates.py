"""Optimizers that are applied outside of traced steps, as by the tapes of reinforcement learning.

Nothing is exchanged there: every worker computes everything, and has the weights of one device as long as all have the
same gradients. That they do is seen in each update, before anything is changed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autodist.errors import CaptureError
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine

_LOG = logging.getLogger("autodist")
_TOLERANCE = 1e-3
"""Relative tolerance of sums over all gradients: different kinds of hosts round differently."""


def eagerly_alike(engine: Engine | ReferenceEngine) -> Callable[[Any], Any]:
    """A wrapper of an optimizer's method, which compares the gradients of all workers outside of traced steps."""
    import tensorflow as tf

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(engine, Engine) or engine.worker.world_size == 1 or not tf.executing_eagerly():
                return original(optimizer, *args, **kwargs)
            # A `zip` can be gone through once.
            args = tuple(list(given) if isinstance(given, Iterator) else given for given in args)
            kwargs = {key: list(given) if isinstance(given, Iterator) else given for key, given in kwargs.items()}
            name = getattr(optimizer, "name", None) or type(optimizer).__name__
            _see_that_all_have(engine, name, (args, kwargs))
            return original(optimizer, *args, **kwargs)

        return apply

    return wrap


def _see_that_all_have(engine: Engine, name: str, gradients: Any) -> None:
    if engine.decisions.are_alike(_sums(gradients), _TOLERANCE, f"applies `{name}` outside of a traced step"):
        if engine.worker.is_chief and name not in engine.applied_alike:
            _LOG.info("`%s` is applied outside of a traced step: every worker does it alike, and nothing is sent", name)
        engine.applied_alike.add(name)
        return
    raise CaptureError(
        f"the optimizer `{name}` is applied outside of a traced step, and the workers have different gradients there",
        hint="decorate the training step by `@ad.function` or `@tf.function`: outside of such steps all workers do "
        "the same, with the same data (no loop over `ad.shard`) and the same seeds",
    )


def _sums(gradients: Any) -> list[float]:
    """Two numbers that represent all gradients."""
    import tensorflow as tf

    leaves = [leaf for leaf in tf.nest.flatten(gradients, expand_composites=True) if isinstance(leaf, tf.Tensor)]
    values = [np.asarray(leaf).astype(np.float64).ravel() for leaf in leaves if leaf.dtype.is_floating]
    sizes = [float(np.abs(value).sum()) for value in values]
    places = [float(value @ np.cos(np.arange(value.size))) for value in values]
    return [sum(sizes), sum((k + 1) * place for k, place in enumerate(places))]
