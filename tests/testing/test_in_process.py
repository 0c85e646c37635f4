"""Several workers in this process: the example runs, a cluster that is too large is refused, and nobody gets in."""

import doctest
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime.session._binding import listens_everywhere
from autodist.testing import InProcessCluster, certify_in_process
from autodist.testing._in_process import _in_process_cluster
from autodist.testing._in_process._local_servers import server_targets
from tests.runtime.test_admission import GREETED

AS_NOBODY = f"""{GREETED}
import os
"".encode("idna")  # loads what this user may not read
os.setuid(65534)
print(*(is_greeted("127.0.0.1", int(port)) for port in sys.argv[1:]))
"""


def test_the_example_runs():
    result = doctest.testmod(_in_process_cluster)
    assert (result.failed, result.attempted > 5) == (0, True)


@pytest.mark.parametrize("cpus", [(1, 1, 1, 1, 1), (1, 3)], ids=["five hosts", "three devices"])
def test_too_large_a_cluster_is_refused(cpus):
    spec = ResourceSpec(tuple(Host(f"h{k}", f"h{k}", cpus=count) for k, count in enumerate(cpus)))
    with pytest.raises(UsageError, match=f"the cluster has {len(cpus)} hosts with up to {max(cpus)} devices"):
        InProcessCluster(lambda x: x, [np.zeros((2, 1), np.float32)], "PS", spec)


def test_its_servers_hear_this_user_alone():
    ports = [target.rpartition(":")[2] for target in server_targets()]
    assert not any(listens_everywhere(int(port)) for port in ports)
    if os.geteuid():
        pytest.skip("only root can be another user")
    told = subprocess.run([sys.executable, "-c", AS_NOBODY, *ports], capture_output=True, text=True, timeout=60)
    assert told.stdout.split() == ["False"] * len(ports), told.stderr


def penalized():
    weight = tf.Variable(np.random.default_rng(0).normal(size=(6, 6)), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2) + 0.1 * tf.linalg.trace(weight) ** 2
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return loss

    return step


@pytest.mark.parametrize(
    ("strategy", "workers"),
    [
        ("Tiled(dims=('weight=1',))", 2),
        ("Tiled(dims=('weight=0',), groups=2)", 4),
        ("PartitionedPS(min_shard_bytes=0)", 2),
    ],
)
def test_variables_of_which_workers_have_parts_are_compared(strategy, workers):
    batches = [[np.random.default_rng(k).normal(size=(7, 6))] for k in range(2)]
    certify_in_process(penalized, batches, strategy, ResourceSpec.local(workers=workers), rtol=1e-10)
