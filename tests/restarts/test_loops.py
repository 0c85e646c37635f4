"""`ad.checkpoint` in one process: loops of all kinds, interrupted at any step, and what it refuses."""

import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.coordination import current_worker
from autodist.errors import UsageError

from .conftest import Stop
from .killing import dataset, model


def adam():
    return keras.optimizers.Adam(0.02)


def train(directory, stop=None, *, make=model, optimizers=(adam,), passes=3, data=dataset, sharded=True, **checkpoint):
    """What training ends with, and the steps that it has taken."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    source = data()
    ad = autodist.AutoDist(spec=autodist.ResourceSpec.local(cpus=2))
    taken = []
    with ad.scope():
        trained = make()
        optimizer = optimizers[0]()

        @ad.function
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(trained(x) - y))
            variables = trained.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        saved = ad.checkpoint(directory, model=trained, optimizer=optimizer, **checkpoint)
        for number in range(passes):
            for step, (x, y) in saved.steps(ad.shard(source) if sharded else source):
                train_step(x, y)
                taken.append((number, step))
                if step == stop:
                    raise Stop
    return [v.numpy() for v in (*trained.variables, *optimizer.variables)], taken


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        random = np.random.default_rng(0)
        self.weights = tf.Variable(random.normal(size=(8, 1)).astype("float32"))

    def __call__(self, x):
        return x @ self.weights


def batches():
    return list(dataset(seed=1).as_numpy_iterator())


LOOPS = {
    "model": {},
    "module": {"make": Module},
    "dropout": {"make": lambda: _with_dropout()},
    "list of batches": {"data": batches, "sharded": False},
    "dataset that is not sharded": {"sharded": False},
    "unknown length": {"data": lambda: dataset().filter(lambda x, y: True)},
    "by passes": {"every_steps": None},
    "shuffle without a seed of its own": {"data": lambda: dataset(seed=None)},
}


def _with_dropout():
    inner = model(0.3)
    call = inner.call
    inner.call = lambda x, **options: call(x, **{**options, "training": True})
    return inner


@pytest.mark.parametrize("loop", [k if k == "model" else pytest.param(k, marks=pytest.mark.slow) for k in LOOPS])
def test_interrupted_loops(loop, tmp_path):
    options = {"every_steps": 2, **LOOPS[loop]}
    expected, all_taken = train(tmp_path / "other", **options)
    assert [step for _, step in all_taken] == list(range(24))
    for stop in (4, 9, 20):
        with pytest.raises(Stop):
            train(tmp_path / "backup", stop, **options)
    found, taken = train(tmp_path / "backup", **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert taken == all_taken[16 if loop == "by passes" else 20 :]


def test_term_in_the_middle_of_a_pass(tmp_path, interruption):
    """It is saved where the script stands, though only passes would be; the next process goes on from there."""

    def told():
        for number, batch in enumerate(dataset(seed=1)):
            if number == 5:
                current_worker().interruption.tell(signal.SIGTERM)
            yield batch

    def data(source):
        return Again(source) if source is told else list(dataset(seed=1))

    options = {"passes": 2, "sharded": False}
    expected, all_taken = train(tmp_path / "other", data=lambda: data(None), **options)
    with pytest.raises(Stop):
        train(tmp_path / "backup", data=lambda: data(told), **options)
    interruption()
    found, taken = train(tmp_path / "backup", data=lambda: data(None), **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert taken == all_taken[6:]


class Again:
    """What can be iterated over again and again."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return self.make()


def test_files_are_read_by_plain_tensorflow(tmp_path):
    values, _ = train(tmp_path, every_steps=8)
    keras.utils.set_random_seed(9)
    restored, optimizer = model(), adam()
    optimizer.build(restored.trainable_variables)
    newest = tf.train.latest_checkpoint(tmp_path)
    checkpoint = tf.train.Checkpoint(model=restored, optimizer=optimizer)
    checkpoint.restore(newest).expect_partial().assert_existing_objects_matched()
    trained = [v for v in (*restored.variables, *optimizer.variables) if "seed" not in v.path]
    names = [v.path for v in (*restored.variables, *optimizer.variables)]
    kept = [value for value, name in zip(values, names, strict=True) if "seed" not in name]
    for variable, value in zip(trained, kept, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_save_and_step(tmp_path):
    variable = tf.Variable([0.0])
    ad = autodist.AutoDist()
    with ad.scope():
        checkpoint = ad.checkpoint(tmp_path, every_steps=100, variable=variable)
        for step, _ in checkpoint.steps(range(5)):
            assert checkpoint.step == step
            variable.assign_add([1.0])
        checkpoint.save()
        assert checkpoint.step == 5
    with ad.scope():
        variable.assign([0.0])
        checkpoint = ad.checkpoint(tmp_path, every_steps=100, variable=variable)
        assert (checkpoint.step, variable.numpy().item()) == (5, 5.0)
        assert list(checkpoint.steps(range(5))) == []
        assert [step for step, _ in checkpoint.steps(range(2))] == [5, 6]


@pytest.mark.slow
def test_recording_for_a_certificate_leaves_checkpoints_alone(tmp_path, monkeypatch):
    train(tmp_path / "backup", passes=1)
    before = sorted((tmp_path / "backup").iterdir())
    monkeypatch.setenv("AUTODIST_RECORD_DIR", str(tmp_path / "recorded"))
    monkeypatch.setenv("AUTODIST_RECORD_STEPS", "100")
    _, taken = train(tmp_path / "backup", passes=2)
    assert len(taken) == 16
    assert sorted((tmp_path / "backup").iterdir()) == before


# --- what is refused


def unbuilt():
    return keras.Sequential([keras.layers.Dense(1)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing is to be saved"),
        ({"every_steps": 0, "model": model}, "`every_steps` is 0"),
        ({"every_s": -1.0, "model": model}, "`every_s` is -1.0"),
        ({"keep": 0, "model": model}, "`keep` is 0"),
        ({"directory": "", "model": model}, "the directory of checkpoints is ''"),
        ({"directory": None, "model": model}, "the directory of checkpoints is None"),
        ({"model": unbuilt}, "the model `model` has no variables so far"),
        ({"one": adam, "two": adam, "model": model}, "the optimizers `one`, `two` have no variables so far"),
        ({"optimizer": adam}, "the optimizer `optimizer` has no variables so far"),
        ({"model": lambda: [1.0]}, "`model` is a list"),
        ({"position": model}, "`position` is a name of AutoDist's own"),
    ],
)
def test_mistakes_about_loops_are_said(arguments, message, tmp_path):
    arguments = {name: value() if callable(value) else value for name, value in arguments.items()}
    ad = autodist.AutoDist()
    with ad.scope(), pytest.raises(UsageError, match=message):
        ad.checkpoint(**{"directory": tmp_path, **arguments})


def test_another_model(tmp_path):
    train(tmp_path, passes=1)
    with pytest.raises(UsageError, match="is of another model or optimizer"):
        train(tmp_path, make=Module)
