"""The models of the registry train as on one device, under strategies of each kind, on two and three workers.

All models of a strategy and a number of workers share one launch, which takes some minutes.
"""

from pathlib import Path

import numpy as np
import pytest

from .registry import NOT_CERTIFIED, STRATEGIES, WORKERS, certified, models, table, why_skipped
from .runs import Place, quick_place

pytestmark = pytest.mark.timeout(3600)  # the first test of a place runs all models of that place

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
IMAGES = ("resnet", "inception", "vgg", "densenet")
OF_THE_THESIS = (*IMAGES, "transformer", "ncf_dense", "ncf_sparse", "bert_3", "bert_6", "bert_12", "bert_large", "lstm")
UNUSUAL = ("while_loop", "branches", "mixture", "tied", "frozen", "two_optimizers")
BACKWARD = ("adversarial", "custom_gradient", "recompute")
SEQUENCES = ("bidirectional", "masked_attention", "custom_cell", "tensor_array", "scan", "keras_ops")
KINDS = ("convolutions", "normalizations", "text")
HUB = ("hub_bert", "hub_gpt2", "hub_vit", "hub_resnet")
NAMES = (*OF_THE_THESIS, *UNUSUAL, *BACKWARD, *SEQUENCES, *KINDS, *HUB)

QUICK = {
    "adversarial": "PSLoadBalancing",
    "custom_cell": "AllReduce(communicator='collective')",
    "text": "PSLoadBalancing",
}
"""Those that every run certifies, in launches of other tests."""

LONG = {"resnet", "inception", "densenet", "bidirectional", "convolutions", "bert_6", "bert_12", "bert_large", *HUB}


def test_every_model_is_tested():
    assert models.names() == NAMES
    assert set(NAMES) - set(certified()) == set(NOT_CERTIFIED)
    with pytest.raises(ValueError, match="no model `bert`, there are resnet, "):
        models.get("bert")
    with pytest.raises(ValueError, match="vgg has no norm, but blocks, "):
        models.get("vgg").build("tiny", norm="group")


def marks_of(name, slow, strategy=None):
    """What holds for a test of a model."""
    skipped = why_skipped(name, strategy)
    return [pytest.mark.slow] * slow + [pytest.mark.skip(reason=skipped)] * (skipped is not None)


@pytest.mark.parametrize("name", [pytest.param(n, marks=marks_of(n, n in LONG)) for n in NAMES])
def test_a_model_learns_a_batch(name):
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
def test_full_sizes_are_those_of_the_papers(name, millions):
    variables = models.get(name).build("full").variables
    assert sum(np.prod(v.shape) for v in variables) == pytest.approx(1e6 * millions, rel=0.02)


def test_the_page_has_the_table():
    assert "\n".join(table()) in PAGE.read_text()


def parameters():
    for name, strategy in QUICK.items():
        behind, place = quick_place(strategy)
        yield pytest.param(f"model-{name}{behind}", place, id=f"{name}-quick")
    for called, strategy in STRATEGIES.items():
        horovod = [pytest.mark.horovod] if "horovod" in strategy else []
        for workers in WORKERS:
            place = Place(strategy, workers, label="models")
            for name in certified():
                label = Path(strategy).name.partition("(min_")[0]
                marks = [*marks_of(name, True, called), *horovod]
                yield pytest.param(f"model-{name}", place, marks=marks, id=f"{name}-{label}-{workers}")


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
