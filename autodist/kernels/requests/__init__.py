"""Questions to other workers about the parts of a worker's graph that are on their devices."""

from autodist.kernels.requests._requests import Requests

__all__ = [
    "Requests",
]
