"""Checkpoints of a training: what is in their directory, whose it is, and how it is written whole."""

from autodist.runtime._checkpoints._checkpoints import CheckpointKind, Checkpoints
from autodist.runtime._checkpoints._note import CheckpointNote

__all__ = ["CheckpointKind", "CheckpointNote", "Checkpoints"]
