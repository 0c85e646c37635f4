"""The time of a step's computation on one device, and the times of its parts."""

from autodist.simulator.profiles._profile_cache import ProfileCache
from autodist.simulator.profiles._step_profile import Profile

__all__ = [
    "Profile",
    "ProfileCache",
]
