"""Keras in a scope: ``fit``, ``evaluate`` and ``predict``, callbacks, and Keras 2."""

from autodist.runtime.keras._callback_state import best_weights, callback_states, restore_callbacks
from autodist.runtime.keras._evaluation import hook_evaluation
from autodist.runtime.keras._files_aside import FilesAside
from autodist.runtime.keras._fit import hook_fit
from autodist.runtime.keras._fit_position import FitFollower, FitPosition
from autodist.runtime.keras._keras2 import hook_keras2

__all__ = [
    "FilesAside",
    "FitFollower",
    "FitPosition",
    "best_weights",
    "callback_states",
    "hook_evaluation",
    "hook_fit",
    "hook_keras2",
    "restore_callbacks",
]
