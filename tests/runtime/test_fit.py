"""Keras' training loop inside a scope equals the one outside, whatever it is fed with and called with."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError

from .programs import TWO, adam, assert_same, compiled_model, data, everything, make_model, run_distributed

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")  # Keras' own, for every dataset


class Sequence(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.x, self.y = data()

    def __len__(self):
        return 6

    def __getitem__(self, k):
        return self.x[10 * k : 10 * k + 10], self.y[10 * k : 10 * k + 10]


def generator():
    while True:
        sequence = Sequence()
        for k in range(6):
            yield sequence[k]


def dataset(size=10):
    return tf.data.Dataset.from_tensor_slices(data()).batch(size)


ARRAYS = dict(zip("xy", data(), strict=True)) | {"batch_size": 10, "shuffle": False}
HELD_OUT = data(2, seed=1)


class CustomStep(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = make_model()
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, x):
        return self.inner(x)

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.seen.update_state(loss)
        return {"seen": self.seen.result()}


def lazy():
    return keras.Sequential([keras.layers.Dense(160, activation="tanh"), keras.layers.Dense(1)])


def fitting(make=make_model, compile_with=None, **fit):
    def program(scope):
        options = {"optimizer": adam(), "loss": "mse", "metrics": ["mae"], **(compile_with or {})}
        with scope():
            model = make()
            model.compile(**options)
            arguments = {key: value() if callable(value) else value for key, value in fit.items()}
            history = model.fit(**{"epochs": 2, "verbose": 0, **arguments}).history
        return history, everything(model), model.evaluate(*HELD_OUT, verbose=0)

    return program


SECOND = pytest.mark.slow
"""Of ways to fit that another one has part in."""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(fitting(**ARRAYS), marks=SECOND),
        fitting(**ARRAYS | {"batch_size": 7}),
        pytest.param(fitting(**ARRAYS | {"shuffle": True}), marks=SECOND),
        pytest.param(fitting(x=dataset), marks=SECOND),
        pytest.param(fitting(x=lambda: dataset(7)), marks=SECOND),
        pytest.param(fitting(x=lambda: dataset().repeat(), steps_per_epoch=4), marks=SECOND),
        fitting(x=Sequence, shuffle=False),
        fitting(x=generator, steps_per_epoch=6),
        pytest.param(fitting(**ARRAYS, steps_per_epoch=3), marks=SECOND),
        fitting(compile_with={"steps_per_execution": 4}, x=dataset),
        fitting(compile_with={"jit_compile": True}, **ARRAYS),
        fitting(
            compile_with={"metrics": [], "weighted_metrics": ["mae"]}, **ARRAYS, sample_weight=np.linspace(0, 1, 60)
        ),
        pytest.param(fitting(**ARRAYS, validation_data=HELD_OUT), marks=SECOND),
        pytest.param(fitting(**ARRAYS, validation_split=0.25), marks=SECOND),
        fitting(x=dataset, validation_data=HELD_OUT, validation_freq=2, initial_epoch=1, epochs=4),
        pytest.param(fitting(make=lazy, **ARRAYS), marks=SECOND),
        fitting(make=lazy, x=dataset),
        fitting(make=CustomStep, compile_with={"metrics": None}, **ARRAYS),
        fitting(compile_with={"optimizer": "sgd", "metrics": []}, x=lambda: dataset(1)),
    ],
)
def test_fit_ends_as_on_one_device(program):
    assert_same(program)


def test_class_weights_count_as_on_one_device():
    def program(scope):
        x, y = data()
        with scope():
            model = keras.Sequential([keras.Input((160,)), keras.layers.Dense(2)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(adam(), loss=loss)
            labels = (y[:, 0] > 0).astype("int32")
            model.fit(x, labels, batch_size=10, class_weight={0: 0.2, 1: 2.0}, shuffle=False, verbose=0)
        return everything(model)

    assert_same(program)


DECIDING = [
    lambda tmp: keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=0, min_delta=10.0),
    lambda tmp: keras.callbacks.EarlyStopping(monitor="loss", min_delta=10.0, patience=1, restore_best_weights=True),
]
LASTING = [
    lambda tmp: keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7),
    lambda tmp: keras.callbacks.ModelCheckpoint(str(tmp / "{epoch}.keras")),
    lambda tmp: keras.callbacks.ModelCheckpoint(str(tmp / "w.weights.h5"), save_weights_only=True, save_freq=2),
    lambda tmp: keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: logs["loss"] + 1),
    lambda tmp: keras.callbacks.BackupAndRestore(str(tmp / "backup")),
    lambda tmp: keras.callbacks.TerminateOnNaN(),
    lambda tmp: keras.callbacks.SwapEMAWeights(),
]


@pytest.mark.parametrize(
    "callbacks",
    [DECIDING, LASTING, *(pytest.param([callback], marks=pytest.mark.slow) for callback in (*DECIDING, *LASTING))],
)
def test_callbacks_are_called_as_on_one_device(callbacks, tmp_path):
    seen = []

    def program(scope):
        where = tmp_path / str(len(seen))
        where.mkdir()
        seen.append(where)
        with scope():
            model = compiled_model(optimizer=keras.optimizers.SGD(0.02, use_ema=True, ema_momentum=0.5))
            history = model.fit(**ARRAYS, epochs=4, verbose=0, callbacks=[make(where) for make in callbacks]).history
        saved = [keras.models.load_model(path).get_weights() for path in sorted(where.glob("*.keras"))]
        return history, everything(model), saved

    assert_same(program)


def test_evaluate_and_predict_between():
    def program(scope):
        seen = []
        with scope():
            model = compiled_model(metrics=["mae"])
            for _ in range(2):
                model.fit(**ARRAYS, verbose=0)
                seen.append(model.evaluate(*HELD_OUT, verbose=0))
                seen.append(model.predict(HELD_OUT[0], verbose=0))
                seen.append(model.predict_on_batch(HELD_OUT[0][:4]))
                seen.append(model.test_on_batch(HELD_OUT[0][:4], HELD_OUT[1][:4]))
        return seen, everything(model)

    assert_same(program)


def test_train_on_batch_after_a_sharded_fit():
    def program(scope):
        x, y = data()
        with scope():
            model = compiled_model()
            model.fit(dataset(), verbose=0)
            losses = [model.train_on_batch(x[k : k + 5], y[k : k + 5]) for k in (0, 5, 10)]
            losses.append(model.train_on_batch(x[:6], y[:6], sample_weight=np.linspace(0, 1, 6)))
        return losses, everything(model)

    assert_same(program)


def test_compile_twice_and_fit_twice():
    def program(scope):
        with scope():
            model = compiled_model()
            model.fit(**ARRAYS, verbose=0)
            model.fit(x=dataset(), verbose=0)
            first = everything(model)
            model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mae")
            model.layers[0].trainable = False
            model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mae")
            model.fit(**ARRAYS, verbose=0)
        return first, everything(model)

    assert_same(program)


def test_two_models_in_one_scope_and_two_scopes():
    def program(scope):
        with scope():
            one, other = compiled_model(), compiled_model(optimizer="sgd")
            for _ in range(2):
                one.fit(**ARRAYS, verbose=0)
                other.fit(x=dataset(), verbose=0)
        with scope():
            one.fit(**ARRAYS, verbose=0)
        return everything(one), everything(other)

    assert_same(program)


def test_model_is_an_ordinary_one_after_the_scope():
    def program(scope):
        with scope():
            model = compiled_model()
            model.fit(**ARRAYS, verbose=0)
        model.fit(**ARRAYS, verbose=0)
        return everything(model)

    assert_same(program)


def test_run_eagerly_trains_as_on_one_device():
    def program(scope):
        with scope():
            model = compiled_model(run_eagerly=True)
            model.fit(**ARRAYS, verbose=0)
        return everything(model)

    assert_same(program, spec=autodist.ResourceSpec.local(cpus=1))
    with pytest.raises(CaptureError, match="run_eagerly=True") as raised:
        run_distributed(program)
    assert "run_eagerly=False" in raised.value.hint


def test_shuffled_arrays_are_shuffled_as_on_one_device():
    with autodist.scope(**TWO):
        model = compiled_model()
        history = model.fit(**ARRAYS | {"shuffle": True}, epochs=2, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0]
