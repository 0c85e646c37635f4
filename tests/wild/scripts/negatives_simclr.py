"""SimCLR: two views of each example, all others of the batch are negatives, a learned temperature.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(2).normal(size=(44, 8)).astype("float32")
views = tf.data.Dataset.from_tensor_slices((x, x[:, ::-1] * 0.9)).batch(11)


class SimCLR(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.layers.Dense(12, "relu"), keras.layers.Dense(5)])
        self.temperature = self.add_weight(shape=(), initializer="ones", name="temperature")

    def call(self, x):
        return tf.math.l2_normalize(self.encoder(x), axis=1)

    def train_step(self, views):
        one, other = views
        with tf.GradientTape() as tape:
            similarity = tf.matmul(self(one), self(other), transpose_b=True) * tf.exp(self.temperature)
            labels = tf.range(tf.shape(one)[0])
            losses = keras.losses.sparse_categorical_crossentropy(labels, similarity, from_logits=True)
            back = keras.losses.sparse_categorical_crossentropy(labels, tf.transpose(similarity), from_logits=True)
            loss = tf.reduce_mean(losses + back) / 2
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        hits = tf.reduce_mean(tf.cast(tf.argmax(similarity, 1, tf.int32) == labels, tf.float32))
        return {"loss": loss, "hits": hits}


with autodist.scope():
    model = SimCLR()
    model.build((None, 8))
    model.compile(keras.optimizers.SGD(0.2, momentum=0.9))
    history = model.fit(views, epochs=2, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
}
