"""Scripts with a mistake that shows on several workers only: `mistakes.py NAME`."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import autodist
from fit.data import Batches, arrays, compiled, dataset, generator, held_out

RANK = int(os.environ["RANK"])


def another_length(ad):
    """A generator ends earlier on one worker."""
    batches = (batch for batch, _ in zip(generator(), range(3 - RANK), strict=False))
    compiled().fit(batches, validation_data=held_out(), verbose=0)


def another_length_in_validation(ad):
    """So does that of the validation data."""
    batches = (batch for batch, _ in zip(generator(held_out()), range(2 - RANK), strict=False))
    compiled().fit(dataset(), validation_data=batches, verbose=0)


def other_batches(ad):
    """All but the first batch are drawn by a generator without a seed."""

    class Drawn(Batches):
        def __getitem__(self, k):
            x, y = super().__getitem__(k)
            return (x, y) if k == 0 else (x + np.random.default_rng().normal(size=x.shape), y)

    compiled().fit(Drawn(), epochs=3, shuffle=False, verbose=0)


def other_datasets(ad):
    """A dataset looks at its worker."""
    other = tf.data.Dataset.range(20).map(lambda k: (tf.fill([6], tf.cast(k, tf.float32) + RANK), tf.ones([1])))
    compiled().fit(other.batch(8), epochs=3, verbose=0)


def evaluates_alone(ad):
    """One worker evaluates, the other goes on."""
    model = compiled()
    model.fit(dataset(), verbose=0)
    if RANK == 1:
        model.evaluate(*held_out(), verbose=0)
    model.fit(dataset(), verbose=0)


def evaluates_alone_at_the_end(ad):
    """One worker evaluates after the training."""
    model = compiled()
    model.fit(dataset(), verbose=0)
    if RANK == 1:
        model.evaluate(*held_out(), verbose=0)


def sets_weights_alone(ad):
    """No mistake: what one worker has assigned between two `fit`s is assigned on all."""
    model = compiled()
    model.fit(dataset(), verbose=0)
    if RANK == 1:
        model.optimizer.learning_rate = 0.125
    model.fit(dataset(), verbose=0)
    assert float(model.optimizer.learning_rate) == 0.125


def main():
    keras.utils.set_random_seed(7)
    ad = autodist.AutoDist()
    with ad.scope():
        globals()[sys.argv[1]](ad)


def outside():
    """The scope is forgotten."""
    autodist.AutoDist()
    compiled().fit(*arrays(), verbose=0)


def own_loop_outside():
    """The scope is forgotten, in a loop of one's own."""
    model, optimizer = compiled(), keras.optimizers.SGD(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(arrays()[0]) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


if __name__ == "__main__":
    globals()[sys.argv[1]]() if "outside" in sys.argv[1] else main()
