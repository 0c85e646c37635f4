"""The ways that values take between workers, for tests that have to hold for each."""

import pytest

WAYS = [
    "PSLoadBalancing(communicator='queue')",
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='tcp')",
    "PSLoadBalancing(communicator='tcp')",
    pytest.param("AllReduce(communicator='horovod')", marks=pytest.mark.horovod),
]
"""One strategy for each."""
