"""Variables of which each replica has a part that it computes with."""

from autodist.kernels.tile._made_for_tiles import MadeForTiles
from autodist.kernels.tile._own_parts import OwnParts
from autodist.kernels.tile._served_parts import ServedParts

__all__ = ["MadeForTiles", "OwnParts", "ServedParts"]
