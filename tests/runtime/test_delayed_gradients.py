"""Gradients that workers exchange and apply some steps later, in a script with all that goes on between steps."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("delayed_script.py")


class OneDevice:
    """What the script does, on one device, where each step applies the gradients of an earlier one."""

    def __init__(self, staleness):
        numbers = np.random.default_rng(0)
        self.x, self.y = (numbers.normal(size=(40, size)).astype(np.float32) for size in (12, 6))
        keras.utils.set_random_seed(3)
        dense = keras.layers.Dense
        self.model = keras.Sequential([keras.Input((12,)), dense(24, "tanh"), dense(24, "tanh"), dense(6)])
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)
        self.staleness, self.kept = staleness, []

    def loss(self, x, y):
        return tf.reduce_mean((self.model(x, training=True) - y) ** 2)

    def step(self, k):
        with tf.GradientTape() as tape:
            loss = self.loss(self.x[k : k + 8], self.y[k : k + 8])
        self.kept.append(tape.gradient(loss, self.model.trainable_variables))
        if len(self.kept) > self.staleness:
            self.optimizer.apply(self.kept.pop(0), self.model.trainable_variables)
        return float(loss)

    def settle(self):
        while self.kept:
            self.optimizer.apply(self.kept.pop(0), self.model.trainable_variables)

    def evaluate(self):
        self.settle()
        return float(self.loss(self.x, self.y))

    def run(self):
        found = {}

        def weights(name):
            found.update({f"{name}/{k}": weight for k, weight in enumerate(self.model.get_weights())})

        losses = [self.step(k) for k in (0, 8, 16, 24)]
        weights("before")
        losses.append(self.evaluate())
        weights("settled")
        losses += [self.step(k) for k in (0, 8)]
        self.model.set_weights([0.9 * found[f"settled/{k}"] for k in range(6)])
        losses.append(self.step(0))
        self.settle()
        trained, validated = [], []
        for _ in range(2):
            trained.append(np.mean([self.step(k) for k in range(0, 40, 8)]))
            validated.append(self.evaluate())
        weights("end")
        return found | {"losses": np.asarray([*losses, *trained, *validated])}


@pytest.mark.parametrize(
    ("strategy", "workers"),
    [
        ("AllReduce(staleness=2)", 2),
        pytest.param("Tiled(dims=('*/kernel=1', '*/bias=0'), groups=2, staleness=2)", 4, marks=pytest.mark.slow),
        pytest.param(
            "Tiled(dims=('*/kernel=1', '*/bias=0'), groups=2, staleness=1, served=True)", 4, marks=pytest.mark.slow
        ),
        pytest.param("AllReduce(staleness=1, communicator='collective')", 2, marks=pytest.mark.slow),
        pytest.param("AllReduce(staleness=1, communicator='horovod')", 2, marks=pytest.mark.slow),
    ],
)
def test_results_are_those_of_one_device_that_applies_gradients_as_late(tmp_path, strategy, workers):
    job = Job(SCRIPT, ResourceSpec.local(workers), (str(tmp_path),), strategy=strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    wanted = OneDevice(int(strategy.partition("staleness=")[2][0])).run()
    assert np.abs(wanted["before/0"] - wanted["settled/0"]).max() > 1e-3
    for rank in range(workers):
        found = np.load(tmp_path / f"{rank}.npz")
        assert set(found.files) == set(wanted)
        for name, value in wanted.items():
            bound = 2e-5 * max(1e-2, np.abs(value).max())
            np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=bound, err_msg=name)
