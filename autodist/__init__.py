"""AutoDist: turns a single-device TensorFlow/Keras 3 training script into a distributed one.

    import autodist, tensorflow as tf

    with autodist.scope():
        model = tf.keras.Sequential([...])
        model.compile(optimizer="adam", loss="mse")
        model.fit(dataset)

Importing this package does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from autodist import errors
from autodist.installation import check_tensorflow

__version__ = "0.1.0"

if TYPE_CHECKING:
    from autodist import strategies
    from autodist.api import AutoDist, function, scope
    from autodist.callbacks import BackupAndRestore
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies import Strategy

__all__ = [
    "AutoDist",
    "BackupAndRestore",
    "ResourceSpec",
    "Strategy",
    "errors",
    "function",
    "scope",
    "strategies",
]

_HOMES = {
    "AutoDist": "autodist.api",
    "BackupAndRestore": "autodist.callbacks",
    "ResourceSpec": "autodist.resource_spec",
    "Strategy": "autodist.strategies",
    "function": "autodist.api",
    "scope": "autodist.api",
}


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return importlib.import_module("autodist.strategies")
    if name in _HOMES:
        if _HOMES[name] == "autodist.callbacks":
            check_tensorflow()  # Keras is imported there
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'autodist' has no attribute {name!r}, it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
