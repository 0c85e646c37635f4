"""What replicas can't share by rows is refused by name, and what the refusal says to do instead works."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import autodist
from autodist.errors import UsageError
from autodist.runtime.data import WorkerShares, shard_dataset

from .programs import TWO

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


def test_batches_of_different_numbers_of_rows():
    """No worker drops what has no place in the batch."""
    dataset = tf.data.Dataset.range(3).map(lambda k: (tf.ones([4, 2]), tf.ones([k + 4])))
    dataset = dataset.map(lambda x, y: (tf.reshape(x, [-1, 2]), y[: tf.shape(y)[0]]))
    dataset = dataset.map(lambda x, y: (tf.boolean_mask(x, x[:, 0] > 0), y))
    taken = iter(shard_dataset(dataset, WorkerShares((1, 1), 1)))
    assert [len(part) for part in next(taken)] == [2, 2]
    with pytest.raises(UsageError, match="different numbers of rows in one element: 0: 4, 1: 5") as raised:
        next(taken)
    assert "tf.ensure_shape" in raised.value.hint
    assert "drop_remainder=True" in raised.value.hint
