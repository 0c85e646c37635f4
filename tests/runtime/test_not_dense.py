"""What replicas can't share by rows is refused by name, and what the refusal says to do instead works."""

import json
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import autodist
from autodist.errors import UsageError
from autodist.runtime.data import LocalArray, WholeArray, WorkerShares, shard_dataset

from . import unlike_ends
from .programs import TWO, assert_same, everything

X = np.random.default_rng(0).normal(size=(16, 5)).astype("float32") * (np.arange(5) < 3)
Y = X.sum(1, keepdims=True)
SPARSE = scipy.sparse.csr_matrix(X)
RAGGED = tf.RaggedTensor.from_row_lengths(tf.range(32) % 6, [1, 3] * 8)


class Dense(keras.utils.PyDataset):
    """Makes one batch at a time dense."""

    def __len__(self):
        return 2

    def __getitem__(self, k):
        return SPARSE[8 * k : 8 * k + 8].toarray(), Y[8 * k : 8 * k + 8]


def fit(*given, embeds=False):
    """The weights after an epoch on two replicas."""
    first = keras.layers.Embedding(6, 3) if embeds else keras.layers.Dense(3)
    layers = [first, keras.layers.GlobalAveragePooling1D()] if embeds else [first]
    keras.utils.set_random_seed(1)
    with autodist.scope(**TWO):
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(*given, batch_size=None if isinstance(given[0], tf.data.Dataset) else 8, shuffle=False, verbose=0)
    return model.get_weights()


def test_sparse_matrices_of_scipy():
    with pytest.raises(UsageError, match="`fit` was given a scipy csr_matrix as `x`") as raised:
        fit(SPARSE, Y)
    assert "`x.toarray()`" in raised.value.hint
    assert "keras.utils.PyDataset" in raised.value.hint
    for one, other in zip(fit(SPARSE.toarray(), Y), fit(Dense()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("tensor", "kind", "remedy", "dense"),
    [
        (RAGGED, "RaggedTensor", "x.to_tensor()", RAGGED.to_tensor()),
        (tf.sparse.from_dense(X), "SparseTensor", "tf.sparse.to_dense(x)", X),
    ],
)
def test_tensors_and_datasets_of_them(tensor, kind, remedy, dense):
    embeds = kind == "RaggedTensor"
    with pytest.raises(UsageError, match=f"`fit` was given a tensorflow {kind} as `x`") as raised:
        fit(tensor, Y)
    assert remedy in raised.value.hint
    dataset = tf.data.Dataset.from_tensor_slices((tensor, Y)).batch(8)
    with pytest.raises(UsageError, match=f"the dataset's elements have a {kind} at 0") as raised:
        fit(dataset)
    assert remedy in raised.value.hint
    to_dense = {
        "RaggedTensor": lambda x, y: (x.to_tensor(), y),
        "SparseTensor": lambda x, y: (tf.sparse.to_dense(x), y),
    }
    for one, other in zip(fit(dataset.map(to_dense[kind]), embeds=embeds), fit(dense, Y, embeds=embeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_batches_of_different_numbers_of_rows(caplog):
    """No worker drops what has no place in the batch: such elements come whole to all workers."""
    dataset = tf.data.Dataset.range(3).map(lambda k: (tf.ones([4, 2]), tf.ones([k + 4])))
    dataset = dataset.map(lambda x, y: (tf.reshape(x, [-1, 2]), y[: tf.shape(y)[0]]))
    dataset = dataset.map(lambda x, y: (tf.boolean_mask(x, x[:, 0] > 0), y))
    for rank in range(2):
        alike, *others = shard_dataset(dataset, WorkerShares((1, 1), rank))
        assert [(len(part), type(part)) for part in alike] == [(2, LocalArray), (2, LocalArray)]
        for rows, element in zip((5, 6), others, strict=True):
            assert [(len(part), type(part)) for part in element] == [(4, WholeArray), (rows, WholeArray)]
    assert caplog.text.count("different numbers of rows in one element: 0: 4, 1: 5") == 1, "the chief says it once"
    assert "tf.ensure_shape" in caplog.text
    assert "drop_remainder=True" in caplog.text


class Means(keras.layers.Layer):
    """The mean of each graph's nodes."""

    def call(self, nodes, numbers):
        return tf.math.segment_mean(nodes, numbers)


def slices(*arrays, rows):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(rows)


@pytest.mark.parametrize("strategy", ["AllReduce", "PSLoadBalancing"])
def test_steps_of_elements_with_different_numbers_of_rows(strategy):
    """Labelled and unlabelled examples; in the last elements, they happen to be as many."""
    x, others = (np.random.default_rng(k).normal(size=(size, 5)).astype("float32") for k, size in enumerate((20, 34)))
    labelled = slices(x, x.sum(1, keepdims=True), rows=4)
    both = tf.data.Dataset.zip(labelled, slices(others, rows=7))
    both = both.concatenate(tf.data.Dataset.zip(labelled, slices(others, rows=4)).take(2))
    assert [(len(x), len(others)) for (x, _), others in both] == [(4, 7)] * 4 + [(4, 6)] + [(4, 4)] * 2

    def program(scope):
        with scope() as ad:
            model = keras.Sequential([keras.Input([5]), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
            optimizer = keras.optimizers.Adam(0.1)

            @tf.function
            def step(x, y, others):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(model(x) - y)) + tf.math.reduce_std(model(others))
                optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
                return loss

            losses = [float(step(*labelled, others)) for labelled, others in (ad.shard(both) if ad else both)]
        return losses, everything(model, optimizer)

    assert_same(program, strategy=strategy)


@pytest.mark.parametrize("strategy", ["AllReduce", "PSLoadBalancing"])
def test_fit_of_graphs_that_are_packed_into_one(strategy):
    """Each element has some graphs: their nodes, the graph of each node, and a label for each graph."""
    random = np.random.default_rng(3)
    sizes = random.integers(2, 6, 24)
    nodes = [random.normal(size=(size, 3)).astype("float32") for size in sizes]
    labels = np.array([part.mean() for part in nodes], "float32")

    def packed():
        for k in range(0, 24, 6):
            yield (np.concatenate(nodes[k : k + 6]), np.repeat(np.arange(6), sizes[k : k + 6])), labels[k : k + 6]

    spec = (tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int64)), tf.TensorSpec([None])
    data = tf.data.Dataset.from_generator(packed, output_signature=spec)
    data = data.apply(tf.data.experimental.assert_cardinality(4))

    def program(scope):
        with scope():
            features, numbers = keras.Input([3]), keras.Input([], dtype="int64")
            sums = Means()(features, numbers)
            model = keras.Model([features, numbers], keras.layers.Dense(1)(keras.layers.Dense(4, "tanh")(sums)))
            model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
            history = model.fit(data, epochs=3, verbose=0, shuffle=False).history
        return history["loss"], history["mae"], everything(model, model.optimizer)

    assert_same(program, strategy=strategy)


def test_only_the_last_elements_have_different_numbers_of_rows(tmp_path):
    """Two workers and servers, which have the variables by then: all workers run Keras' own step for such elements."""
    command = [sys.executable, "-m", "autodist", "run", unlike_ends.__file__, "--workers", "2"]
    run = subprocess.run(
        [*command, "--strategy", "PSLoadBalancing"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("different numbers of rows in one element: 0/0: 2, 0/1: 2, 1: 4") == 1, run.stderr
    before, expected = unlike_ends.train(lambda dataset: dataset)
    for found in (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)):
        for start, one, other in zip(before, expected, found[1], strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
            assert np.abs(np.subtract(start, other)).max() > 1e-3
