"""Which scope is open, and what must not happen while none is."""

from __future__ import annotations

import functools
from typing import Any, Generic, TypeVar

from autodist.after_import import after_import
from autodist.coordination import Worker
from autodist.errors import UsageError

_T = TypeVar("_T")


class OpenScope(Generic[_T]):
    """The scope that is open in this process, at most one."""

    def __init__(self) -> None:
        self.current: _T | None = None

    def open(self, scope: _T) -> None:
        """Make a scope the open one.

        Raises:
            UsageError: Another one is open.
        """
        if self.current is not None:
            raise UsageError(
                "a scope was opened inside another scope, one can be open at a time",
                hint="leave the outer `with autodist.scope():` first",
            )
        self.current = scope

    def close(self) -> None:
        """No scope is open any more."""
        self.current = None


OPEN: OpenScope[Any] = OpenScope()


def refuse_fit_outside(worker: Worker) -> None:
    """From now on refuse training outside of a scope, where each of several workers would train on its own.

    That is Keras' ``fit``, and every optimizer of Keras that is applied. Imports Keras.
    """
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    _guard(TensorFlowTrainer, worker.world_size, ("fit", "train_on_batch"))
    _guard(BaseOptimizer, worker.world_size, ("apply",))


def refuse_keras2_fit_outside(worker: Worker) -> None:
    """Do the same for Keras 2, as soon as the program imports it."""
    after_import("tf_keras", lambda keras2: _guard(keras2.Model, worker.world_size, ("fit", "train_on_batch")))


def _guard(trainer: Any, world_size: int, names: tuple[str, ...]) -> None:
    if world_size == 1 or hasattr(getattr(trainer, names[0]), "_autodist_guarded"):
        return
    for name in names:
        setattr(trainer, name, _guarded(getattr(trainer, name), name, world_size))


def _guarded(original: Any, name: str, world_size: int) -> Any:
    @functools.wraps(original)
    def train(model: Any, *args: Any, **kwargs: Any) -> Any:
        if OPEN.current is None:
            is_optimizer = name == "apply"
            what = f"the optimizer `{model.name}` was applied" if is_optimizer else f"`{name}` was called"
            own = "weights" if is_optimizer else f"`{model.name}`"
            raise UsageError(
                f"{what} outside of a scope: each of the {world_size} workers would train its own {own}, and they "
                "would drift apart",
                hint="build the model and the optimizer, and run the loop, inside `with autodist.scope():`"
                if is_optimizer
                else "build, compile and fit the model inside `with autodist.scope():`",
            )
        return original(model, *args, **kwargs)

    train._autodist_guarded = True  # type: ignore[attr-defined]
    return train
