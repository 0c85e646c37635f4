"""What a training step may contain, one small case each; the names say what."""

from . import losses, several, structure, updates, variables
from ._case import CASES

__all__ = ["CASES", "losses", "several", "structure", "updates", "variables"]
