"""The models with batch normalization, as they are: with synchronized statistics they equal one device."""

from pathlib import Path

import pytest

from autodist.testing import certify

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_model.py"
STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='collective')",
    pytest.param("Parallax(communicator='horovod')", marks=pytest.mark.horovod),
    str(Path(__file__).with_name("mixed.yml")),
)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Where the single-device run of each model is kept."""
    return tmp_path_factory.mktemp("references")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["resnet", "inception", "densenet"])
def test_equals_one_device(references, name, strategy, workers):
    assert_certified(references, name, strategy, workers)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["resnet", "inception", "densenet"])
def test_groups_of_replicas_equal_one_device(references, name):
    """Statistics meet in a group, of which each replica has a part of the weights, and then between groups."""
    assert_certified(references, name, "Tiled(groups=2)", 4)


def assert_certified(references, name, strategy, workers):
    arguments = [name, "--size", "tiny", "--steps", "3", "--norm", "batch", "--batch-norm", "synchronized"]
    # In float32, the gradient of a scale whose output is normalized again is a difference of nearly equal sums.
    arguments += ["--floats", "float64"]
    certificate = certify(
        EXAMPLE, arguments, strategy=strategy, workers=workers, steps=3, reference=references / name
    ).check()
    assert certificate.num_workers == workers
