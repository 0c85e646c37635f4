"""The program sees whole variables, whatever parts the session holds them in."""

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from certify.partitioned.strategies import InParts

import autodist
from autodist.errors import StrategyError
from autodist.strategies import Strategy

from .programs import TWO, adam, assert_same, batches, compiled_model, data, everything, make_model, make_step


@dataclass(frozen=True)
class Shifting(InParts):
    """Cuts into other parts from step to step."""

    name: ClassVar[str] = "Shifting"

    def build(self, graph, spec):
        built = super().build(graph, spec)
        TAKEN.append(built)
        if len(TAKEN) % 2:
            return built
        whole = tuple(type(c).whole(c.variable, c.shards[0].synchronizer) for c in built.variables)
        return Strategy(built.graph, whole)


TAKEN: list[Strategy] = []


@pytest.mark.parametrize("laying", ["servers", "collective"])
def test_reads_and_assignments_between_steps(laying):
    def program(scope):
        seen = []
        with scope() as ad:
            model, optimizer = make_model(), adam()
            step = make_step(model, optimizer)
            for k, (x, y) in enumerate(batches()):
                seen.append(step(x, y))
                assert ad is None or ad.strategies[0].variables[0].partition is not None
                kernel = model.layers[0].kernel
                seen.append(tf.reduce_max(kernel * 2.0).numpy())
                if k == 1:
                    model.set_weights([0.9 * w for w in model.get_weights()])
                if k == 2:
                    optimizer.variables[2].assign(0.5 * optimizer.variables[2])  # a slot
                if k == 3:
                    kernel.assign_add(0.01 * tf.ones(kernel.shape))
                    seen.append(kernel.numpy())
        return seen, everything(model, optimizer)

    assert_same(program, strategy=InParts(laying=laying))


def test_fit_evaluate_save_and_load(tmp_path):
    x, y = data(3)

    def program(scope):
        with scope():
            model = compiled_model(metrics=["mae"])
            first = model.fit(x, y, batch_size=10, shuffle=False, verbose=0, validation_data=(x[:9], y[:9])).history
            model.save_weights(tmp_path / "kept.weights.h5")
            kept = everything(model)
            second = model.fit(x, y, batch_size=7, shuffle=False, verbose=0).history
            model.load_weights(tmp_path / "kept.weights.h5")
            again = model.fit(x, y, batch_size=7, shuffle=False, verbose=0).history
            model.save(tmp_path / "whole.keras")
        restored = keras.models.load_model(tmp_path / "whole.keras")
        assert all(np.array_equal(a, b) for a, b in zip(restored.get_weights(), model.get_weights(), strict=True))
        return [first, second, again], kept, everything(model)

    assert_same(program, strategy=InParts())


def two_steps(scope, first, second):
    """Two models that each look at the other's variables, trained by steps of their own, `first` before `second`."""
    seen = []
    with scope():
        models, optimizers = [make_model(), make_model()], [adam(), adam(0.003)]
        steps = [step_of(models[k], models[1 - k], optimizers[k]) for k in range(2)]
        for x, y in batches():
            seen.append([steps[first](x, y), steps[second](x, y)])
    return seen, [everything(m, o) for m, o in zip(models, optimizers, strict=True)]


def step_of(trained, other, optimizer):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            out = trained(x)
            loss = tf.reduce_mean(tf.square(out - y) + 0.1 * out * other(x))
        variables = trained.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


@pytest.mark.parametrize("strategy", [InParts("servers"), pytest.param(Shifting("collective"), marks=pytest.mark.slow)])
def test_a_step_finds_what_another_trains(strategy):
    """The first step reads whole variables that the second one cuts, and the second reads what the first has cut."""
    TAKEN.clear()
    assert_same(lambda scope: two_steps(scope, 0, 1), strategy=strategy)


def test_steps_that_train_the_same_agree_on_the_parts():
    TAKEN.clear()

    def program(scope):
        seen = []
        with scope():
            model, optimizer, other = make_model(), adam(), keras.optimizers.SGD(0.01, momentum=0.9)
            steps = [make_step(model, optimizer), make_step(model, other)]
            for k, (x, y) in enumerate(batches()):
                seen.append(steps[k % 2](x, y))
        return seen, everything(model, optimizer), [v.numpy() for v in other.variables]

    assert_same(program, strategy=Shifting("collective"))
    assert len(TAKEN) == 2


def test_a_later_step_that_needs_the_whole_says_so():
    x, y = batches(1)[0]
    with autodist.scope(**TWO, strategy=InParts()):
        model = make_model()
        make_step(model, adam())(x, y)
        clipping = make_step(model, keras.optimizers.SGD(0.01, clipnorm=1.0))
        with pytest.raises(StrategyError, match=r"partitioned in another step of the scope.*\(Sum\) looks at more"):
            clipping(x, y)


def test_values_survive_an_error():
    model, optimizer = make_model(), adam()
    before = [w.copy() for w in model.get_weights()]
    with contextlib.suppress(RuntimeError), autodist.scope(**TWO, strategy=InParts()):
        step = make_step(model, optimizer)
        for x, y in batches(2):
            step(x, y)
        raise RuntimeError
    expected, chosen = make_model(), adam()
    expected.set_weights(before)
    for x, y in batches(2):
        make_step(expected, chosen)(x, y)
    for one, other in zip(expected.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)
