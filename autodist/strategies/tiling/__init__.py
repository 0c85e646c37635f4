"""Tilings: how the tensors of a step lie on a mesh of devices.

>>> str(TensorLayout.whole(2))
'*,*'
"""

from autodist.strategies.tiling._tensor_layout import TensorLayout, layout_problems
from autodist.strategies.tiling._tiling_plan import TilingPlan
from autodist.strategies.tiling._tiling_words import (
    PlanDifference,
    TiledBlock,
    diff_tilings,
    explain_tiling,
    tiled_blocks,
    tiling_problems,
)

__all__ = [
    "PlanDifference",
    "TensorLayout",
    "TiledBlock",
    "TilingPlan",
    "diff_tilings",
    "explain_tiling",
    "layout_problems",
    "tiled_blocks",
    "tiling_problems",
]
