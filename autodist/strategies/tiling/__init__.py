"""Tilings: how the tensors of a step lie on a mesh of devices.

>>> str(TensorLayout.whole(2))
'*,*'
"""

from autodist.strategies.tiling._tensor_layout import TensorLayout, layout_problems
from autodist.strategies.tiling._tiling_plan import TilingPlan

__all__ = ["TensorLayout", "TilingPlan", "layout_problems"]
