"""Models by tilings by clusters: losses and weights are those of one device.

Tilings are those that people choose by rule, the one that is searched for, and ten in which the dim of every variable
is drawn. There are two to eight devices, on one, two and four workers.
"""

import random

import keras
import numpy as np
import pytest

from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster

from . import single
from .test_groups import assert_same
from .test_tiled import drawn_dims, perceptron, recurrent, trained, transformer

layers = keras.layers
DRAWN = 10
WORDS = 19


def convolutions():
    """Mean and variance are those of the whole batch with any strategy."""
    body = [layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(synchronized=True), layers.MaxPooling2D(2)]
    head = [layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten(), layers.Dense(24), layers.Dense(8)]
    return keras.Sequential([keras.Input((8, 8, 4)), *body, *head])


def looped():
    return keras.Sequential([keras.Input((5, 8)), layers.LSTM(12, unroll=False), layers.Dense(8)])


def embeddings():
    head = [layers.Flatten(), layers.Dense(11, "tanh"), layers.Dense(8)]
    return keras.Sequential([keras.Input((4,), dtype="int32"), layers.Embedding(WORDS, 12), *head])


MODELS = (perceptron, convolutions, transformer, recurrent, looped, embeddings)
PLACES = ((2,), (3,), (4,), (8,), (1, 1), (2, 1), (2, 2), (1, 1, 1, 1), (2, 2, 2, 2))
"""By worker, the number of its devices."""
QUICK = {(perceptron, (3,))}


def cases():
    for build in MODELS:
        for place in PLACES:
            marks = () if (build, place) in QUICK else pytest.mark.slow
            name = f"{build.__name__}-{sum(place)} on {len(place)}"
            yield pytest.param(build, place, marks=marks, id=name)


def batches(model, rows):
    """Batches of so many rows."""
    numbers, is_text = np.random.default_rng(1), model.inputs[0].dtype == "int32"
    for count in rows:
        given, wanted = ((count, *shape[1:]) for shape in (model.input_shape, model.output_shape))
        x = numbers.integers(0, WORDS, given) if is_text else numbers.normal(size=given)
        yield [x.astype(np.int32 if is_text else np.float32), numbers.normal(size=wanted).astype(np.float32)]


def tilings(model, place):
    """Data and model parallelism, both, what is searched for, and drawn ones, in groups of whole workers or not."""
    devices = sum(place)
    yield "AllReduce(communicator='tcp')"
    last = [f"{v.path}={len(v.shape) - 1 if v.shape[-1] >= devices else 'whole'}" for v in model.trainable_variables]
    yield f"Tiled(dims={tuple(last)!r})"
    yield "Tiled()"
    groups = [1, 2] if len(place) % 2 == 0 and devices > 2 and len(set(place)) == 1 else [1]
    if len(groups) > 1:
        yield f"Tiled(dims={tuple(last)!r}, groups=2)"
    chosen = random.Random(f"{model.count_params()} {devices}")
    for number in range(DRAWN):
        count = groups[number % len(groups)]
        rules = drawn_dims(model, chosen, devices // count, unequal=True)
        yield f"Tiled(dims={rules!r}, groups={count})"


def ran_on_one(step, data, devices, strategy):
    """What one worker finds with several devices, whose parts of the batch differ; the last one has none."""
    sizes = [len(data[0][0]) - devices + 2, *[1] * (devices - 2), 0]
    ran = single.run(step, data, sizes, strategy=strategy)
    return [[found[0]] for found in ran.outputs], {name: [value] for name, value in ran.variables.items()}


def ran_on_several(step, data, place, strategy):
    """What several workers find."""
    spec = ResourceSpec(tuple(Host(name, name, cpus=count) for name, count in zip("abcd", place, strict=False)))
    with InProcessCluster(step, data[0], strategy, spec) as cluster:
        outputs = [[found for [found] in cluster.step(*batch)] for batch in data]
        return outputs, cluster.values()


@pytest.mark.parametrize(("build", "place"), list(cases()))
def test_losses_and_weights_are_those_of_one_device(build, place):
    keras.utils.set_random_seed(1)
    model, devices = build(), sum(place)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    data = list(batches(model, [devices + 4] * 2 if len(place) == 1 else [devices + 4, devices - 1]))
    begun = {v.path: v.numpy() for v in model.trainable_variables}
    step, losses, after = trained(model, optimizer, data)
    moved = [name for name, value in begun.items() if np.abs(after[name] - value).max() > 1e-4]
    assert len(moved) >= len(begun) - 1  # a bias before batch normalization, or of keys, changes nothing
    for strategy in tilings(model, place):
        run = (
            ran_on_one(step, data, devices, strategy)
            if len(place) == 1
            else ran_on_several(step, data, place, strategy)
        )
        for outputs, loss in zip(run[0], losses, strict=True):
            np.testing.assert_allclose(outputs, [loss] * len(outputs), rtol=1e-5, err_msg=strategy)
        assert_same(run[1], after)
