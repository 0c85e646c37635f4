"""Variables of which each replica has a part that it computes with."""

from autodist.kernels.tile._own_parts import OwnParts

__all__ = ["OwnParts"]
