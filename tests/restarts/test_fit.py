"""`fit` with `autodist.BackupAndRestore`: interrupted at any batch, it ends where it ends otherwise, bit by bit."""

import signal

import keras
import numpy as np
import pytest

import autodist
from autodist.coordination import current_worker
from autodist.errors import UsageError

from .conftest import Stop
from .killing import dataset, model

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed", "ignore:Your input ran out of data")


class StopAt(keras.callbacks.Callback):
    def __init__(self, epoch, batch=None):
        super().__init__()
        self.place = (epoch, batch)
        self.epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            raise Stop

    def on_epoch_end(self, epoch, logs=None):
        if (epoch, None) == self.place:
            raise Stop


def train(directory, stop=None, *, make=None, compile_with=None, callbacks=(), save_freq=1, epochs=3, **fit):
    """What training ends with, and the logs of all epochs."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    data = {"x": dataset()} if not fit else {name: value() if callable(value) else value for name, value in fit.items()}
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=2)):
        trained = (make or model)()
        options = {
            "optimizer": keras.optimizers.Adam(0.02),
            "loss": "mse",
            "metrics": ["mae"],
            **(compile_with or dict)(),
        }
        trained.compile(**options)
        backup = autodist.BackupAndRestore(directory, save_freq=save_freq) if directory is not None else None
        given = [backup, *(make_callback() for make_callback in callbacks)]
        given += [StopAt(*stop)] if stop is not None else []
        history = trained.fit(
            **data, epochs=epochs, verbose=0, callbacks=[callback for callback in given if callback is not None]
        )
    values = [v.numpy() for v in (*trained.variables, *trained.optimizer.variables)]
    return values, history.history, history.epoch


def assert_equal(found, expected):
    values, history, epochs = found
    for one, other in zip(values, expected[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert history == expected[1]
    assert epochs == expected[2]


def interrupted(directory, *places, **options):
    for place in places:
        with pytest.raises(Stop):
            train(directory, place, **options)
    return train(directory, **options)


def arrays():
    return tuple(np.concatenate(part) for part in zip(*dataset(seed=1).as_numpy_iterator(), strict=True))


class Sequence(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.x, self.y = arrays()

    def __len__(self):
        return 5

    def __getitem__(self, k):
        return self.x[8 * k : 8 * k + 8], self.y[8 * k : 8 * k + 8]


def generator():
    sequence = Sequence()
    while True:
        for k in range(len(sequence)):
            yield sequence[k]


def unknown():
    return dataset().filter(lambda x, y: True)


SOURCES = {
    "dataset": {},
    "unknown cardinality": {"x": unknown},
    "endless": {"x": lambda: dataset().repeat(), "steps_per_epoch": 5},
    "more data than steps": {"x": dataset, "steps_per_epoch": 4},
    "validation": {"x": dataset, "validation_data": lambda: arrays()},
    "arrays": {"x": lambda: arrays()[0], "y": lambda: arrays()[1], "batch_size": 8},
    "sequence": {"x": Sequence, "shuffle": False},
    "generator": {"x": generator, "steps_per_epoch": 5},
    "several steps at once": {"compile_with": lambda: {"steps_per_execution": 3}, "save_freq": 3},
}


QUICK = "unknown cardinality"


@pytest.mark.parametrize(
    "source", [QUICK, *(pytest.param(source, marks=pytest.mark.slow) for source in SOURCES if source != QUICK)]
)
def test_interrupted_fits_of_each_source_end_as_undisturbed_ones(source, tmp_path):
    options = SOURCES[source]
    expected = train(None, **options)
    found = interrupted(tmp_path / "backup", (0, 2), (1, None), (2, 2), **options)
    assert_equal(found, expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_callbacks_count(tmp_path):
    options = {
        "make": lambda: model(0.3),
        "compile_with": lambda: {"optimizer": keras.optimizers.SGD(0.01, momentum=0.9)},
        "epochs": 6,
        "callbacks": [
            lambda: keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_delta=10.0),
            lambda: keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
            lambda: keras.callbacks.EarlyStopping(
                monitor="loss", patience=3, min_delta=10.0, restore_best_weights=True
            ),
        ],
    }
    expected = train(None, **options)
    assert len(expected[2]) < 6
    assert np.isfinite(expected[1]["loss"]).all()
    found = interrupted(tmp_path, (0, 3), (1, 5), (2, 0), **options)
    assert_equal(found, expected)


# --- signals


class Tells(keras.callbacks.Callback):
    """Tells the process of a signal in the middle of an epoch, as its launcher would."""

    def __init__(self, signum):
        super().__init__()
        self.signum = signum
        self.has_told = False

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and not self.has_told:
            current_worker().interruption.tell(self.signum)
            self.has_told = True


def test_term_in_the_middle_of_an_epoch(tmp_path, interruption):
    options = {"save_freq": "epoch", "epochs": 2}
    expected = train(None, **options)
    with pytest.raises(Stop):
        train(tmp_path / "backup", callbacks=[lambda: Tells(signal.SIGTERM)], **options)
    assert (tmp_path / "backup" / "ckpt-4.index").exists()
    interruption()
    assert_equal(train(tmp_path / "backup", **options), expected)


def test_term_with_the_callback_of_keras(tmp_path, interruption):
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=2)):
        trained = model()
        trained.compile("adam", "mse")
        callbacks = [keras.callbacks.BackupAndRestore(tmp_path / "backup"), Tells(signal.SIGTERM)]
        with pytest.raises(Stop):
            trained.fit(dataset(), epochs=2, verbose=0, callbacks=callbacks)
        assert trained.optimizer.iterations.numpy() == 4
    saved = model()
    saved.compile("adam", "mse")
    saved.optimizer.build(saved.trainable_variables)
    saved.load_weights(tmp_path / "backup" / "latest.weights.h5")
    for one, other in zip(saved.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_ctrl_c_in_the_middle_of_an_epoch(interruption):
    """The script goes on with the values that it has, in the scope."""
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=2)):
        trained = model()
        trained.compile("adam", "mse")
        with pytest.raises(KeyboardInterrupt):
            trained.fit(dataset(), epochs=2, verbose=0, callbacks=[Tells(signal.SIGINT)])
        assert trained.optimizer.iterations.numpy() == 4
        before = trained.get_weights()
        trained.fit(dataset(), epochs=1, verbose=0)
        assert trained.optimizer.iterations.numpy() == 12
    assert not np.allclose(before[0], trained.get_weights()[0])


# --- what is refused


@pytest.mark.parametrize("save_freq", [0, -1, "batch", 1.5])
def test_a_wrong_save_freq_is_refused(save_freq, tmp_path):
    with pytest.raises(UsageError, match="`save_freq` is "):
        autodist.BackupAndRestore(tmp_path, save_freq=save_freq)


def test_outside_of_a_scope(tmp_path):
    outside = model()
    outside.compile("sgd", "mse")
    with pytest.raises(UsageError, match="is used outside of a scope"):
        outside.fit(dataset(), verbose=0, callbacks=[autodist.BackupAndRestore(tmp_path)])


def test_a_model_without_variables(tmp_path):
    with autodist.scope():
        unbuilt = keras.Sequential([keras.layers.Dense(1)])
        unbuilt.compile("sgd", "mse")
        with pytest.raises(UsageError, match="has no variables so far"):
            unbuilt.fit(dataset(), verbose=0, callbacks=[autodist.BackupAndRestore(tmp_path)])


def test_two_backups_in_one_fit_are_refused(tmp_path):
    with autodist.scope():
        trained = model()
        trained.compile("sgd", "mse")
        backups = [autodist.BackupAndRestore(tmp_path / name) for name in "ab"]
        with pytest.raises(UsageError, match="it takes one"):
            trained.fit(dataset(), verbose=0, callbacks=backups)


@pytest.mark.slow
def test_data_that_is_too_short(tmp_path):
    with pytest.raises(Stop):
        train(tmp_path, (0, 5))
    with pytest.raises(UsageError, match="the data ends after 2 batches, but training was at batch 5"):
        train(tmp_path, x=lambda: dataset().take(2))
