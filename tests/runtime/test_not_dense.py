"""What is not dense, or has other rows: it trains as on one device, and what is said of it works."""

import functools
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


BOTH = ["AllReduce", pytest.param("PSLoadBalancing", marks=pytest.mark.slow)]


class Dense(keras.utils.PyDataset):
    """Makes one batch at a time dense."""

    def __len__(self):
        return 2

    def __getitem__(self, k):
        return SPARSE[8 * k : 8 * k + 8].toarray(), Y[8 * k : 8 * k + 8]


def fit(*given):
    """The weights after an epoch on two replicas."""
    keras.utils.set_random_seed(1)
    with autodist.scope(**TWO):
        model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(*given, batch_size=8, shuffle=False, verbose=0)
    return model.get_weights()


class Pooled(keras.layers.Layer):
    """The mean of each text's word vectors; texts are ragged."""

    def build(self, _):
        self.table = self.add_weight(shape=(6, 3), initializer="normal")

    def call(self, texts):
        vectors = tf.ragged.map_flat_values(functools.partial(tf.gather, self.table.value), texts)
        return tf.reduce_mean(vectors, axis=1)

    def compute_output_shape(self, shape):
        return shape[0], 3


class OfTexts(keras.Model):
    """A model of ragged texts."""

    def __init__(self):
        super().__init__()
        self.pooled, self.head = Pooled(), keras.layers.Dense(1)

    def call(self, texts):
        return self.head(self.pooled(texts))


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize(
    "kind", [pytest.param("scipy", marks=pytest.mark.slow), "sparse", "sparse dataset", "ragged", "ragged dataset"]
)
def test_fit_of_what_is_not_dense(kind, strategy, caplog):
    """`fit`, `evaluate` and `predict`; the last batch is smaller."""
    given, _, form = kind.partition(" ")
    x = {"scipy": SPARSE, "sparse": tf.sparse.from_dense(X), "ragged": RAGGED}[given]
    data = tf.data.Dataset.from_tensor_slices((x, Y)).batch(6) if form else None

    def program(scope):
        with scope():
            layers = [keras.Input([5], sparse=True), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)]
            model = OfTexts() if given == "ragged" else keras.Sequential(layers)
            model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
            options = {"epochs": 2, "verbose": 0, "shuffle": False}
            if form:
                history = model.fit(data, validation_data=data, **options).history
                tested = model.evaluate(data, verbose=0), model.predict(data.map(lambda x, y: x), verbose=0)
            else:
                history = model.fit(x, Y, batch_size=6, validation_data=(x, Y), **options).history
                tested = model.evaluate(x, Y, verbose=0), model.predict(x, verbose=0)
        return history, tested, everything(model, model.optimizer)

    assert_same(program, strategy=strategy)
    assert "whole" not in caplog.text


def test_one_batch_at_a_time_made_dense():
    """What the documentation says of large matrices."""
    for one, other in zip(fit(SPARSE.toarray(), Y), fit(Dense()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize("sharded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_steps_of_what_is_not_dense(sharded, strategy, caplog):
    """Own steps: ragged in two ways, sparse, given back; numbers of rows and values that differ from batch to batch."""
    random = np.random.default_rng(1)
    deep = tf.ragged.constant([[[k % 6] * (1 + (k + j) % 3) for j in range(k % 4)] for k in range(16)], ragged_rank=2)
    sparse = tf.sparse.from_dense(random.normal(size=(16, 4)).astype("float32") * (random.random((16, 4)) < 0.5))
    data = tf.data.Dataset.from_tensor_slices(({"words": RAGGED, "deep": deep}, sparse, Y)).batch(5)

    def program(scope):
        traces = []
        with scope() as ad:
            table = tf.Variable(np.arange(18).reshape(6, 3).astype("float32") / 9)
            weight = tf.Variable(tf.ones([4, 3]))
            optimizer = keras.optimizers.Adam(0.1)

            @tf.function(reduce_retracing=True)
            def step(texts, sparse, y):
                traces.append(texts["words"].shape)
                with tf.GradientTape() as tape:
                    words = tf.ragged.map_flat_values(functools.partial(tf.gather, table), texts["words"])
                    deep = tf.ragged.map_flat_values(functools.partial(tf.gather, table), texts["deep"])
                    means = tf.reduce_mean(words, 1) + tf.reduce_sum(tf.reduce_sum(deep, 2), 1)
                    found = means * tf.sparse.sparse_dense_matmul(sparse, weight)
                    loss = tf.reduce_mean((tf.reduce_sum(found, 1, keepdims=True) - y) ** 2)
                optimizer.apply(tape.gradient(loss, [table, weight]), [table, weight])
                return loss, texts["words"] + 1

            found = [step(*batch) for batch in (ad.shard(data) if ad and sharded else data)]
        assert len(traces) <= 4, traces
        return [(float(loss), words.to_tensor()) for loss, words in found], table.numpy(), weight.numpy()

    assert_same(program, strategy=strategy)
    assert caplog.text.count("every replica computes such a batch whole") == 1, "of rows that are ragged again"


@pytest.mark.parametrize("make", [lambda: RAGGED, lambda: tf.sparse.from_dense(X)])
def test_workers_parts_of_what_is_not_dense(make):
    """No worker takes its own examples for those of all."""
    data = tf.data.Dataset.from_tensor_slices((make(), Y)).batch(8)
    for by in ("element", "file"):
        with pytest.raises(UsageError, match=f"workers read their own parts of dense tensors only, by {by}"):
            autodist.AutoDist(**TWO).shard(data, by=by)
    for options, beside in (({"batch": "local"}, None), ({}, Y[:8].view(LocalArray))):
        with autodist.scope(**TWO, **options):
            weight = tf.Variable(1.0)

            @tf.function
            def step(x, beside, weight=weight):
                with tf.GradientTape() as tape:
                    loss = weight * weight
                weight.assign_sub(tape.gradient(loss, weight))

            with pytest.raises(UsageError, match="each worker has other examples") as raised:
                step(make(), beside)
        assert "dense in the input pipeline" in raised.value.hint


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


@pytest.mark.parametrize("strategy", [pytest.param("AllReduce", marks=pytest.mark.slow), "PSLoadBalancing"])
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


@pytest.mark.parametrize("strategy", BOTH)
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


@pytest.mark.slow
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
