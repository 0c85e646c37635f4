"""The work of an optimizer's update on each part of a variable."""

from autodist.graph.updates._in_parts import in_parts
from autodist.graph.updates._update_region import Obstacle, UpdateRegion, UpdateRegions
from autodist.graph.updates._update_rules import Domain, is_aligned

__all__ = [
    "Domain",
    "Obstacle",
    "UpdateRegion",
    "UpdateRegions",
    "in_parts",
    "is_aligned",
]
