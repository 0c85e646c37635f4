"""Many models and losses, with batches whose lengths differ: one trace serves them as one device does."""

import keras
import numpy as np
import pytest

import autodist

from . import length_models, length_steps
from .programs import run_distributed, run_plain

pytestmark = [
    pytest.mark.usefixtures("doubles"),
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
    pytest.mark.filterwarnings("ignore:(?s).*was passed an input with a mask attached to it"),
]

THREE = {"spec": autodist.ResourceSpec.local(cpus=3)}


def compare(program, *, tolerance=1e-9, **options):
    """Run a program on one device and on replicas; return the number of traces."""
    expected, _ = run_plain(program)
    found, traces = run_distributed(program, **options)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=1e-2 * tolerance)
    return traces


def fitted(name):
    def program(scope):
        with scope() as ad:
            model, data, loss = length_models.MODELS[name]()
            metrics = [] if name == "ctc" else ["accuracy"]
            model.compile(keras.optimizers.Adam(0.01), loss, metrics=metrics)
            history = model.fit(data, epochs=2, verbose=0).history
            evaluated = model.evaluate(data, verbose=0, return_dict=True)
            predicted = [model.predict_on_batch(batch[0]) for batch in data]
            traces = ad and len(ad.strategies)
        return [*model.get_weights(), *history.values(), *evaluated.values(), *predicted], traces

    return program


@pytest.mark.parametrize(("name", "is_served"), [
    ("part_of_time", False), ("tied", True),
    pytest.param("to_the_second", False, marks=pytest.mark.slow),
    pytest.param("mean_of_even_rest", False, marks=pytest.mark.slow),
])  # fmt: skip
def test_no_order_and_no_remainder_is_taken_for_that_of_all_lengths(name, is_served):
    """Sizes may be affine in the lengths that are described, by what they have in common only."""
    traces = compare(length_steps.program(length_steps.CASES[name]))
    assert (traces == 2) == is_served


@pytest.mark.slow
@pytest.mark.parametrize("name", length_steps.CASES)
@pytest.mark.parametrize("options", [{}, {**THREE, "strategy": "PSLoadBalancing"}], ids=["two", "three"])
def test_losses(name, options):
    compare(length_steps.program(length_steps.CASES[name]), **options)


OTHERS = ("lstm", "tied", "images", "translated_by_attention")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "strategy"), [
    *((name, "AllReduce") for name in length_models.MODELS),
    *((name, strategy) for name in OTHERS for strategy in ("PartitionedPS", "Parallax")),
])  # fmt: skip
def test_models(name, strategy):
    compare(fitted(name), strategy=strategy, tolerance=1e-4 if name == "ctc" else 1e-9)  # CTC is of 32 bits
