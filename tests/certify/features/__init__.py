"""What a training step may contain, one small case each; the names say what."""

from . import losses, normalized, several, structure, updates, variables, whole_batch
from ._case import CASES

__all__ = ["CASES", "losses", "normalized", "several", "structure", "updates", "variables", "whole_batch"]
