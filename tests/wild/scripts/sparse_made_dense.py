"""Sparse rows that the input pipeline makes dense, and a PyDataset that makes scipy's matrices dense.

Kind: data
"""

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf

import autodist

rng = np.random.default_rng(132)
dense = ((rng.random((36, 20)) < 0.2) * rng.normal(size=(36, 20))).astype("float32")
y = dense.sum(1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(dense), y)).batch(10)
data = data.map(lambda x, y: (tf.sparse.to_dense(x), y))


class Rows(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.matrix = scipy.sparse.csr_matrix(dense)

    def __len__(self):
        return 4

    def __getitem__(self, k):
        return self.matrix[k * 9 : k * 9 + 9].toarray(), y[k * 9 : k * 9 + 9]


with autodist.scope():
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.3), "mse")
    one = model.fit(data, epochs=1, verbose=0)
    two = model.fit(Rows(), epochs=1, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "losses": [one.history["loss"], two.history["loss"]]}
