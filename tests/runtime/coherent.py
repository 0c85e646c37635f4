"""A training script that does everything at once; the tests run it undistributed and on two workers."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

RANK = int(os.environ.get("RANK", "0"))
OUT = sys.argv[1] if __name__ == "__main__" else None  # a test imports this for the undistributed result


def make(width=160):
    return keras.Sequential(
        [keras.Input((width,)), keras.layers.Dense(width, activation="tanh"), keras.layers.Dense(1)]
    )


def adam():
    return keras.optimizers.Adam(0.01, epsilon=1e-2)


def step_of(trained, others, optimizer):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            out = trained(x)
            loss = tf.reduce_mean(tf.square(out - y) + sum(tf.square(other(x)) for other in others) * out)
        variables = trained.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def batches(sizes):
    random = np.random.default_rng(3)
    for size in sizes:
        x = random.normal(size=(size, 160)).astype("float32")
        yield x, x[:, :1] * 2


def reading_first(scope):
    """The first step only reads what the second trains: its home changes."""
    with scope():
        one, other, third = make(), make(), make()
        steps = [step_of(one, [other], adam()), step_of(other, [one], adam()), step_of(third, [one, other], adam())]
        losses = [float(step(x, y)) for x, y in batches([8, 8, 5, 1]) for step in steps]
    return losses, one.get_weights(), other.get_weights(), third.get_weights()


def looking_and_assigning(scope):
    """The program reads, evaluates and assigns between steps."""
    seen = []
    with scope():
        model, optimizer = make(), adam()
        step = step_of(model, [], optimizer)
        evaluate = tf.function(lambda x: tf.reduce_sum(model(x)))
        for k, (x, y) in enumerate(batches([8, 8, 3, 8, 1, 8])):
            seen.append(float(step(x, y)))
            seen.append(float(evaluate(x)))
            if k == 1:
                model.set_weights([0.9 * w for w in model.get_weights()])
            if k == 2:
                optimizer.learning_rate = 0.003
            if k == 3:
                model.layers[0].kernel.assign_add(tf.ones((160, 160)) * 0.01)
            seen.append(float(tf.reduce_sum(tf.matmul(x, model.layers[0].kernel))))
    return seen, model.get_weights(), [v.numpy() for v in optimizer.variables]


def fitting(scope):
    """A second scope, with `fit` over a dataset, and a third with one over arrays."""
    x, y = next(batches([50]))
    with scope():
        model = make()
        model.compile(adam(), loss="mse", metrics=["mae"])
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
        first = model.fit(dataset, shuffle=False, epochs=2, verbose=0, validation_data=(x[:9], y[:9])).history
    with scope():
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss="mse")
        second = model.fit(x, y, batch_size=7, shuffle=True, verbose=0).history
        if OUT is not None:
            model.save_weights(f"{OUT}{RANK}.weights.h5")
        batch = np.ravel(model.train_on_batch(x[:6], y[:6]))
    return [*first["loss"], *first["mae"], *first["val_loss"], *second["loss"], *batch], model.get_weights()


def main(scope, rank=0):
    results = {}
    for program in (reading_first, looking_and_assigning, fitting):
        # The initial weights differ by rank: those of the chief count.
        keras.utils.set_random_seed(5 + rank)
        weights = program if program is not fitting else _same_order(program)
        for k, array in enumerate(tf.nest.flatten(weights(scope))):
            results[f"{program.__name__}/{k}"] = np.asarray(array)
    return results


def _same_order(program):
    """Keras shuffles arrays by the global seed, which must be one for all."""

    def seeded(scope):
        keras.utils.set_random_seed(5)
        return program(scope)

    return seeded


if __name__ == "__main__":
    np.savez(f"{OUT}{RANK}.npz", **main(autodist.scope, RANK))
