"""Several workers in this process: the example runs, and a cluster that is too large is refused."""

import doctest

import numpy as np
import pytest

from autodist.errors import UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster
from autodist.testing._in_process import _in_process_cluster


def test_the_example_runs():
    result = doctest.testmod(_in_process_cluster)
    assert (result.failed, result.attempted > 5) == (0, True)


@pytest.mark.parametrize("cpus", [(1, 1, 1, 1, 1), (1, 3)], ids=["five hosts", "three devices"])
def test_too_large_a_cluster_is_refused(cpus):
    spec = ResourceSpec(tuple(Host(f"h{k}", f"h{k}", cpus=count) for k, count in enumerate(cpus)))
    with pytest.raises(UsageError, match=f"the cluster has {len(cpus)} hosts with up to {max(cpus)} devices"):
        InProcessCluster(lambda x: x, [np.zeros((2, 1), np.float32)], "PS", spec)
