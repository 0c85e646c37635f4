"""How long the computation of a step takes on one device, and when what of it happens."""

from autodist.simulator.profiles._profile_cache import ProfileCache
from autodist.simulator.profiles._step_profile import Profile

__all__ = [
    "Profile",
    "ProfileCache",
]
