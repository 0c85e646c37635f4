"""Tilings: how the tensors of a step lie on a mesh of devices."""

from autodist.strategies.tiling._tensor_layout import TensorLayout, layout_problems

__all__ = ["TensorLayout", "layout_problems"]
