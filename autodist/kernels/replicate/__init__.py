"""Several replicas of the step: what each computes from the batch, and where their values meet."""

from autodist.kernels.replicate._exact import why_not_exact
from autodist.kernels.replicate._joins import ROWS_POINT, with_layers
from autodist.kernels.replicate._only_rows import OTHER_ROWS
from autodist.kernels.replicate._part_shapes import PICKED, refuse_fixed_batches
from autodist.kernels.replicate._replicate import Replicate
from autodist.kernels.replicate._same_batches import DIFFERENT_BATCHES
from autodist.kernels.replicate._warnings import warnings_of

__all__ = [
    "DIFFERENT_BATCHES",
    "OTHER_ROWS",
    "PICKED",
    "ROWS_POINT",
    "Replicate",
    "refuse_fixed_batches",
    "warnings_of",
    "why_not_exact",
    "with_layers",
]
