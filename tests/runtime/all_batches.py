"""`all_batches.py FILES NAMES`: programs whose batches have few rows, none, or something beside them that comes whole.

Each worker writes down what they find, and so does the test, where they run plainly.
"""

import contextlib
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
X = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
Y = X.sum(1, keepdims=True)
BANK = X[:5] / 2
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


class Plain:
    """In the place of a scope."""

    function = staticmethod(lambda step: tf.function(step, reduce_retracing=True))
    shard = staticmethod(lambda dataset, **_: dataset)


@contextlib.contextmanager
def scope(**options):
    if WORLD == 1:
        yield Plain()
        return
    import autodist

    with autodist.AutoDist(**options).scope() as ad:
        yield ad


def filtered():
    """Batches of 6 rows, of which the second one loses all, and the third one all but one."""
    keep = np.ones(24, bool)
    keep[6:12] = keep[13:18] = False
    batches = tf.data.Dataset.from_tensor_slices((X, Y, keep)).batch(6)
    return batches.map(lambda x, y, some: (tf.boolean_mask(x, some), tf.boolean_mask(y, some)))


def make_model():
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05, epsilon=1e-3), "mse", metrics=["mae"])
    return model


def everything(model):
    return [np.asarray(v) for v in (*model.variables, *model.optimizer.variables) if "seed" not in v.path]


def loop(ad, batches):
    """Adam on a plain mean, with a metric."""
    model, metric = make_model(), keras.metrics.MeanSquaredError()

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            found = model(x, training=True)
            loss = tf.reduce_mean(tf.square(found - y))
        variables = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        metric.update_state(y, found)
        return loss, tf.shape(x)[0]

    found = [np.asarray(value) for batch in batches for value in step(*batch)]
    return [*found, np.asarray(metric.result()), *everything(model)]


def sharded():
    with scope() as ad:
        return loop(ad, ad.shard(filtered()))


def global_arrays():
    with scope() as ad:
        return loop(ad, [tuple(t.numpy() for t in batch) for batch in filtered()])


def local_arrays():
    """Each worker brings its part: the second time nobody has any, then only the chief has, then only worker 1."""
    sizes = [(3, 3), (0, 0), (2, 0), (0, 4), (5, 1)]

    def batches():
        start = 0
        for counts in sizes:
            begin = start + (counts[0] if RANK == 1 else 0)
            stop = begin + counts[RANK] if WORLD > 1 else start + sum(counts)
            yield X[begin:stop], Y[begin:stop]
            start += sum(counts)

    with scope(batch="local") as ad:
        return loop(ad, batches())


def fitted():
    with scope():
        model = make_model()
        history = model.fit(filtered(), validation_data=filtered(), epochs=2, shuffle=False, verbose=0).history
        return [*map(np.asarray, history.values()), *everything(model)]


def one_by_one():
    with scope():
        model = make_model()
        losses = [np.asarray(model.train_on_batch(x.numpy(), y.numpy())) for x, y in filtered()]
        return [*losses, *everything(model)]


def class_weights():
    """Of data that are sharded by element."""
    dataset = tf.data.Dataset.from_tensor_slices((X, (Y > 0).astype("float32"))).batch(6)
    with scope() as ad:
        model = make_model()
        given = ad.shard(dataset, by="element") if WORLD > 1 else dataset
        model.fit(given, class_weight={0: 0.1, 1: 3.0}, epochs=2, shuffle=False, verbose=0)
        return everything(model)


def bank():
    """With five rows that all examples of a batch are compared with."""
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    dataset = batches.map(lambda x, y: (BANK, x, y))
    with scope() as ad:
        w = tf.Variable(tf.ones([3, 3]))

        @ad.function
        def step(bank, x, y):
            with tf.GradientTape() as tape:
                near = tf.reduce_mean(tf.nn.tanh(x @ w @ tf.transpose(bank)), 1, keepdims=True)
                loss = tf.reduce_mean(tf.square(near - y)) + tf.reduce_sum(tf.square(bank @ w)) / 100
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss, tf.shape(bank)

        found = [np.asarray(value) for batch in ad.shard(dataset) for value in step(*batch)]
        return [*found, w.numpy()]


def augmented():
    """By random numbers that workers draw in orders of their own; the labels are the same."""

    def augment(x, y):
        return x * tf.random.uniform([], 0.9, 1.1), y

    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(6)
    with scope():
        model = make_model()
        losses = model.fit(dataset, epochs=3, shuffle=False, verbose=0).history["loss"]
        assert losses[2] < losses[0]
        return everything(model)


def asking():
    """In Python for the number of rows of all workers' parts, which nobody knows before a step: refused in words."""
    with scope(batch="local") as ad:
        w = tf.Variable(tf.ones([3, 1]))

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(x @ w - y)) / x.shape[0]
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        if WORLD > 1:
            from autodist.errors import CaptureError

            try:
                step(X[:4], Y[:4])
            except CaptureError as error:
                said, hint = error.message, error.hint
                assert "asks in Python for the number of rows of its batch, at " in said, said
                assert f"{os.path.basename(__file__)}:" in said, said
                assert "write `tf.shape(x)[0]` for the number of rows" in hint, hint
            else:
                raise AssertionError("the step was not refused")
        return [w.numpy()]


PROGRAMS = {
    program.__name__: program
    for program in (sharded, global_arrays, local_arrays, fitted, one_by_one, class_weights, bank, augmented, asking)
}


def run(names):
    return {f"{name} {k}": value for name in names for k, value in enumerate(PROGRAMS[name]())}


if __name__ == "__main__":
    np.savez(f"{sys.argv[1]}{RANK}.npz", **run(sys.argv[2:]), words=list(set(WORDS)))
