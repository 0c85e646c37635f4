"""What a worker's graph has on other workers' devices is asked of these workers."""

from autodist.kernels.requests._requests import Requests

__all__ = [
    "Requests",
]
