"""Checkpoints of a training: the files in their directory, who owns them, and how they are written atomically."""

from autodist.runtime.checkpoints._checkpoints import CheckpointKind, Checkpoints
from autodist.runtime.checkpoints._loop_checkpoint import LoopCheckpoint
from autodist.runtime.checkpoints._whole_models import save_models_whole

__all__ = [
    "CheckpointKind",
    "Checkpoints",
    "LoopCheckpoint",
    "save_models_whole",
]
