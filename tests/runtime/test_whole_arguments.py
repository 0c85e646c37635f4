"""Which tensors of a step and of a dataset are batches, and that all others come whole to every replica."""

import itertools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import AutoDistError
from autodist.runtime.data import (
    LocalArray,
    WholeArray,
    WorkerShares,
    flatten,
    flatten_batch,
    shard_dataset,
    split_by_rows,
)

from .programs import TWO, run_distributed, run_plain

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(22, 3)).astype("float32")
BANK = RANDOM.normal(size=(6, 3)).astype("float32")


def assert_equal(program, **options):
    """What a program gives on one device and on two replicas; it must train."""
    expected, found = run_plain(program), run_distributed(program, **options)
    for one, other in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=1e-6)
    assert np.ptp(np.asarray(tf.nest.flatten(found)[-1])) > 1e-3


def stepping(calls, order="x bank scale"):
    """A loop over calls of a step with a batch `x` and a bank of rows that meets all of it."""

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([3, 1]))

            @tf.function
            def step(*given):
                named = dict(zip(order.split(), given, strict=True))
                with tf.GradientTape() as tape:
                    near = tf.nn.softmax(tf.matmul(named["x"] * w[:, 0], named["bank"], transpose_b=True))
                    loss = tf.reduce_mean(tf.reduce_sum(near, 1) * named["scale"] * (named["x"] @ w)[:, 0] ** 2)
                    loss += 0.01 * tf.reduce_sum(named["bank"] @ w)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss, near

            return [step(*call) for call in calls], w.numpy()

    return program


@pytest.mark.parametrize("rows", [(8, 8, 6), (7, 7, 1), (5, 5, 2)])
@pytest.mark.parametrize("order", ["x bank scale", "bank x scale", "scale x bank"])
def test_what_has_not_the_rows_of_the_batch_comes_whole(rows, order):
    """Also where the last batch has as many rows as the bank by chance, and where the bank comes first."""
    starts = np.cumsum([0, *rows])
    named = [{"x": X[a:b], "bank": BANK, "scale": np.float32(0.5)} for a, b in itertools.pairwise(starts)]
    if order == "bank x scale":
        order = "bank x y scale"
        named = [{**call, "y": call["x"]} for call in named]  # most arrays have the rows of the batch
    assert_equal(stepping([[call[name] for name in order.split()] for call in named], order))


def test_another_bank_in_each_step():
    assert_equal(stepping([(X[:8], BANK, 1.0), (X[8:16], 2 * BANK, 0.5), (X[16:], BANK[:5], 0.5)]))


def test_what_was_a_part_of_the_batch_must_stay_one():
    calls = [(X[:6], BANK, np.float32(1)), (X[6:10], BANK, np.float32(1))]
    with pytest.raises(
        AutoDistError, match=r"differ in dim 0.*argument \S+ 0: 4, argument \S+ 1: 6|argument 0: 4"
    ) as raised:
        run_distributed(stepping(calls))
    assert "tf.constant" in raised.value.hint


def test_rows_beside_something_whole_are_refused():
    """Half the batch would fit the wrong number of rows."""

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([3, 1]))

            @tf.function
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((x @ w - y) ** 2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            step(X[:8], X[:4, :1])

    message = "the 4 rows of argument 1, which is not part of the batch.*test_whole_arguments.py"
    with pytest.raises(AutoDistError, match=message):
        run_distributed(program)


def test_what_the_first_call_has_found_stays():
    first = flatten((X[:8], BANK, 1.0), {})
    assert split_by_rows(first, None) == (True, False)
    assert split_by_rows(flatten((X[:6], BANK, 1.0), {}), (True, False)) == (True, False)
    assert split_by_rows(flatten((BANK, X[:8], X[:8]), {}), None) == (False, True, True)
    local, whole = X[:6].view(LocalArray), BANK.view(WholeArray)
    assert split_by_rows(flatten((local, whole, BANK[:2]), {}), None) == (True, False, False)
    assert isinstance(local + whole[0], LocalArray)


BATCHES = tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(8)
DATASETS = {
    "added in a map": lambda: BATCHES.map(lambda x, y: ({"x": x, "bank": BANK}, y)),
    "zipped, and first": lambda: tf.data.Dataset.zip(tf.data.Dataset.from_tensors(BANK).repeat(), BATCHES).map(
        lambda bank, batch: ({"a bank": bank, "x": batch[0]}, batch[1])
    ),
    "all of fixed sizes": lambda: tf.data.Dataset.zip(
        tf.data.Dataset.from_tensors(BANK).repeat(),
        tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(8, drop_remainder=True),
    ).map(lambda bank, batch: ({"a bank": bank, "x": batch[0]}, batch[1])),
    "with scalars": lambda: BATCHES.map(lambda x, y: ({"x": x, "bank": BANK, "scale": tf.constant(2.0)}, y)),
}


@pytest.mark.parametrize("name", DATASETS)
def test_parts_of_datasets(name):
    """Every worker gets its rows of the batch, and all of the rest."""
    dataset = DATASETS[name]()
    shards = [list(shard_dataset(dataset, WorkerShares((2, 1), rank))) for rank in range(2)]
    for (given, y), *parts in zip(dataset.as_numpy_iterator(), *shards, strict=True):
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y)
        for key, value in given.items():
            kind = LocalArray if key == "x" else WholeArray
            assert all(isinstance(part[0][key], kind) for part in parts)
            for part in parts if key != "x" else ():
                np.testing.assert_array_equal(part[0][key], value)


class Near(keras.Model):
    """Compares each example with a bank that comes with the batch."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, given):
        bank = given["bank"] if "bank" in given else given["a bank"]
        near = keras.ops.matmul(self.dense(given["x"]), keras.ops.transpose(bank))
        return keras.ops.mean(near, -1, keepdims=True) * given.get("scale", 1.0)


@pytest.mark.parametrize("name", DATASETS)
def test_fit_and_loops_on_such_datasets(name):
    def program(scope):
        dataset = DATASETS[name]()
        with scope() as ad:
            model = Near()
            model.compile("sgd", "mse")
            fitted = model.fit(dataset, epochs=2, validation_data=dataset, shuffle=False, verbose=0).history
            evaluated = model.evaluate(dataset, verbose=0)

            @tf.function
            def step(given, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(given) - y) ** 2)
                variables = model.trainable_variables
                model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
                return loss

            losses = [step(*element) for element in (dataset if ad is None else ad.shard(dataset))]
        return fitted["loss"], fitted["val_loss"], evaluated, losses, model.get_weights()[0]

    assert_equal(program)


def test_only_scalars_are_no_batch():
    with pytest.raises(AutoDistError, match="must be batches"):
        autodist.AutoDist(**TWO).shard(tf.data.Dataset.range(3))


class Example(NamedTuple):
    image: np.ndarray
    label: np.ndarray


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        ((X, X, X), ["`x`", "`y`", "`sample_weight`"]),
        (([X, {"age": X}], {"out": X}), ["`x[0]`", "`x[1]['age']`", "`y['out']`"]),
        (X, ["`x`"]),
        ({"age": X, "size": X}, ["`data['age']`", "`data['size']`"]),
        (({"age/years": X, "3": X}, X), ["`x['3']`", "`x['age/years']`", "`y`"]),
        (Example(X, X), ["`data['image']`", "`data['label']`"]),
    ],
)
def test_arguments_of_keras_are_called_as_users_call_them(batch, names):
    assert list(flatten_batch(batch).names) == names
