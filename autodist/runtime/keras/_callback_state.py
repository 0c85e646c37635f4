"""Counts of Keras' own callbacks from epoch to epoch, in and out of a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_KEPT = {
    "History": ("epoch", "history"),
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
}


def callback_states(callbacks: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The state of Keras' own callbacks to keep, as JSON; other callbacks are left out."""
    return {key: _state(callback) for key, callback in _numbered(callbacks)}


def restore_callbacks(callbacks: Sequence[Any], states: Mapping[str, Mapping[str, Any]]) -> None:
    """Give callbacks the state that was kept; several of one class get theirs in order."""
    for key, callback in _numbered(callbacks):
        for name, value in states.get(key, {}).items():
            setattr(callback, name, value)


def best_weights(callbacks: Sequence[Any]) -> list[Any]:
    """The callbacks that keep weights to go back to at the end."""
    return [c for c in callbacks if _kind(c) == "EarlyStopping" and c.restore_best_weights]


def _numbered(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    seen: Counter[str] = Counter()
    for callback in callbacks:
        kind = _kind(callback)
        if kind in _KEPT:
            yield f"{kind}/{seen[kind]}", callback
            seen[kind] += 1


def _state(callback: Any) -> dict[str, Any]:
    return {name: _plain(getattr(callback, name)) for name in _KEPT[_kind(callback)] if hasattr(callback, name)}


def _kind(callback: Any) -> str:
    import keras

    own = (c for c in type(callback).__mro__ if getattr(keras.callbacks, c.__name__, None) is c)
    return next((c.__name__ for c in own), "")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return np.asarray(value).tolist()
