"""One strategy for each carrier and each kind of synchronizer, for tests that have to hold for all."""

import pytest

ONE_PER_CARRIER = [
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='tcp')",
    "PSLoadBalancing(communicator='tcp')",
    pytest.param("AllReduce(communicator='horovod')", marks=pytest.mark.horovod),
]
