"""All losses of batches whose lengths differ."""

from . import length_losses, length_losses_of_pairs, length_losses_of_rows
from .length_cases import CASES, SPECS, batches, program, variables

__all__ = [
    "CASES",
    "SPECS",
    "batches",
    "length_losses",
    "length_losses_of_pairs",
    "length_losses_of_rows",
    "program",
    "variables",
]
