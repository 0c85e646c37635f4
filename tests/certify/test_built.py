"""What the builders build trains as one device does."""

from pathlib import Path

import pytest

from autodist.testing import certify

from . import built
from .runs import QUICK_SERVERS

pytestmark = pytest.mark.timeout(1200)  # the first test of a place runs all cases of that place

SCRIPT = Path(__file__).with_name("built.py")
STEPS = 4

WHOLE = (
    "PS",
    "PS(local_proxy=True)",
    "PSLoadBalancing(local_proxy=True)",
    "HierarchicalPS",
    "AllReduce(chunk_size=2, communicator='collective')",
    "SFB(communicator='collective')",
    built.PLAN,
)
SPLIT = (
    "PartitionedPS(min_shard_bytes=0)",
    "UnevenPartitionedPS(min_shard_bytes=0)",
    "UnevenPartitionedPS(min_shard_bytes=0, max_shards=3, local_proxy=True)",
    "PartitionedAR(min_shard_bytes=0, communicator='collective')",
    "RandomAxisPartitionAR(min_shard_bytes=0, communicator='collective')",
    "BytePS(part_bytes=100)",
    "PartitionedPS(min_shard_bytes=0, stations=True)",
)
OF_OUR_OWN = ("Parallax(min_shard_bytes=0)", "Poseidon(batch_size=1, part_bytes=100)", "Poseidon(part_bytes=100)")
HOROVOD = (
    "Horovod(fusion_bytes=600)",
    "Parallax(min_shard_bytes=0, communicator='horovod')",
    "Poseidon(batch_size=1, part_bytes=100, communicator='horovod')",
)
LAYOUTS = ((2, 1), (2, 2))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Where the single-device run is kept."""
    return tmp_path_factory.mktemp("reference")


def parameters():
    for strategy in (*WHOLE, *SPLIT, *OF_OUR_OWN, *HOROVOD):
        for layout in LAYOUTS:
            marks = [pytest.mark.slow, *([pytest.mark.horovod] if strategy in HOROVOD else [])]
            name = Path(strategy).name if strategy.endswith(".yml") else strategy
            yield pytest.param(strategy, layout, marks=marks, id=f"{name}-{layout[0]}x{layout[1]}")


@pytest.mark.parametrize(("strategy", "layout"), list(parameters()))
def test_equals_one_device(reference, strategy, layout):
    workers, replicas = layout
    certificate = certify(
        SCRIPT, strategy=strategy, workers=workers, replicas=replicas, steps=STEPS, reference=reference
    )
    assert certificate.num_workers == workers
    certificate.check()


@pytest.mark.parametrize(("case", "place"), [("built@plan.yml", QUICK_SERVERS)])
def test_a_plan_by_hand_equals_one_device(runs, case, place):
    """In the launch that other cases share; Parallax is in test_servers.py."""
    runs.certify(case, place).check()
