"""The models of the registry train as on one device, under strategies of each kind, on two and three workers."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from autodist.testing import certify

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 3
STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='collective')",
    pytest.param("Parallax(communicator='horovod')", marks=pytest.mark.horovod),
    str(Path(__file__).with_name("mixed.yml")),
)
IMAGES = ("resnet", "inception", "vgg", "densenet")
LARGE = ("bert_12", "bert_large")
NAMES = (
    *IMAGES, "transformer", "ncf_dense", "ncf_sparse", "bert_3", "bert_6", *LARGE, "lstm",
    "while_loop", "branches", "mixture", "tied", "frozen", "two_optimizers",
)  # fmt: skip


@pytest.fixture(scope="module")
def models():
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("models")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Where the single-device run of each model is kept."""
    return tmp_path_factory.mktemp("references")


def test_every_model_is_tested(models):
    assert models.names() == NAMES
    with pytest.raises(ValueError, match="no model `bert`, there are resnet, "):
        models.get("bert")
    with pytest.raises(ValueError, match="vgg has no norm, but blocks, "):
        models.get("vgg").build("tiny", norm="group")


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("bert_") or n == "bert_3"])
def test_a_model_learns_a_batch(models, name):
    import tensorflow as tf

    training = models.get(name).build("tiny")
    step, batch = tf.function(training.step), training.batch(0)
    losses = [float(step(*batch)) for _ in range(8)]
    assert losses[-1] < losses[0]
    assert not any(np.array_equal(a, b) for a, b in zip(batch, training.batch(1), strict=True) if a.ndim > 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "millions"), [("resnet", 45), ("inception", 24), ("vgg", 138), ("densenet", 8), ("bert_12", 110)]
)
def test_full_sizes_are_those_of_the_papers(models, name, millions):
    variables = models.get(name).build("full").variables
    assert sum(np.prod(v.shape) for v in variables) == pytest.approx(1e6 * millions, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "bert_large"])
def test_equals_one_device(references, name, strategy, workers):
    norm = ["--norm", "group"] if name in ("resnet", "inception", "densenet") else []
    arguments = [name, "--size", "tiny", "--steps", str(STEPS), *norm]
    reference = references / name
    certify(
        EXAMPLES / "train_model.py", arguments, strategy=strategy, workers=workers, steps=STEPS, reference=reference
    ).check()
