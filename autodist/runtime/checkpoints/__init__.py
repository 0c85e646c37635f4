"""Checkpoints of a training: what is in their directory, whose it is, and how it is written whole."""

from autodist.runtime.checkpoints._checkpoints import CheckpointKind, Checkpoints
from autodist.runtime.checkpoints._loop_checkpoint import LoopCheckpoint
from autodist.runtime.checkpoints._whole_models import save_models_whole

__all__ = [
    "CheckpointKind",
    "Checkpoints",
    "LoopCheckpoint",
    "save_models_whole",
]
