"""A script whose steps look up in tables, take large arrays from outside, have no batch, or train nothing."""

import contextlib
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

WORDS = ["a", "b", "c", "d"]
ROWS = 4096  # of the frozen table, 4 MB


class Plain:
    """What stands for AutoDist where nothing is distributed."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)


def quickstart(ad):
    """The loop of TensorFlow's tutorial: a test step changes metrics, before and after training."""
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(3)
    x, noise = random.normal(size=(42, 6)).astype("float32"), random.normal(size=(42,)).astype("float32")
    y = (x.sum(1) + noise > 0).astype("int64")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.5)
    mean, accuracy, ranked = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy(), keras.metrics.AUC()

    @ad.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    def test_step(images, labels):
        logits = model(images, training=False)
        mean(loss_of(labels, logits))
        accuracy(labels, logits)
        ranked(labels, tf.nn.softmax(logits)[:, 1])
        return logits, tf.reduce_max(logits)

    train = tf.data.Dataset.from_tensor_slices((x[:30], y[:30])).batch(8)
    test = tf.data.Dataset.from_tensor_slices((x[30:], y[30:])).batch(5)
    steps = [(ad.function(test_step), ad.shard(test)), (tf.function(test_step), ad.shard(test))]
    steps.append((tf.function(test_step), test))
    found, rows = [], []
    for _ in range(2):
        for step, batches in steps:
            for metric in (mean, accuracy, ranked):
                metric.reset_state()
            seen = [step(*batch) for batch in batches]
            rows.append(np.concatenate([logits for logits, _ in seen]))
            found += [float(largest) for _, largest in seen]
            found += [float(metric.result()) for metric in (mean, accuracy, ranked)]
        for batch in ad.shard(train):
            train_step(*batch)
    return {"weights": model.get_weights(), "found": np.array(found), "rows": rows}


def outside(ad):
    """A lookup table, one that is dense, and a large frozen one."""
    random = np.random.default_rng(5)
    static = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(WORDS, np.arange(4)), 0)
    dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.5, empty_key=-1, deleted_key=-2)
    dense.insert(np.arange(3), np.array([1.0, 2.0, 3.0], "float32"))
    table = tf.constant(random.normal(size=(ROWS, 256)).astype("float32"))
    w, v = tf.Variable(random.normal(size=(4,)).astype("float32")), tf.Variable(tf.zeros((256, 1)))
    data = tf.data.Dataset.from_tensor_slices(
        (random.choice(WORDS, 30), random.integers(0, ROWS, 30), random.normal(size=(30, 1)).astype("float32"))
    ).batch(7)

    @ad.function
    def step(words, ids, y):
        with tf.GradientTape() as tape:
            known = static.lookup(words)
            by_word = tf.gather(w, known) * dense.lookup(known)
            loss = tf.reduce_mean((tf.gather(table, ids) @ v + by_word[:, None] - y) ** 2)
        for variable, gradient in zip((w, v), tape.gradient(loss, (w, v)), strict=True):
            variable.assign_sub(0.05 * tf.convert_to_tensor(gradient))
        return loss

    losses = [float(step(*batch)) for batch in ad.shard(data)]
    return {"weights": [w.numpy(), v.numpy()], "losses": np.array(losses)}


def without_batch(ad):
    """An image is optimized."""
    image, optimizer = tf.Variable(tf.zeros((1, 8, 8, 3))), keras.optimizers.Adam(0.05)
    wanted = tf.constant(np.random.default_rng(3).normal(size=(1, 8, 8, 3)).astype("float32"))

    @ad.function
    def step(weight):
        with tf.GradientTape() as tape:
            loss = weight * tf.reduce_mean((image - wanted) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, image), image)])
        return loss

    losses = [float(step(tf.constant(2.0))) for _ in range(4)]
    return {"weights": [image.numpy(), *(v.numpy() for v in optimizer.variables)], "losses": np.array(losses)}


def evaluations(ad):
    """A function that knows how many rows there are, and a model that is evaluated batch by batch."""
    keras.utils.set_random_seed(4)
    random = np.random.default_rng(4)
    x, y = random.normal(size=(12, 6)).astype("float32"), random.normal(size=(12, 2)).astype("float32")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    dataset, mean = tf.data.Dataset.from_tensor_slices((x, y)).batch(5), keras.metrics.Mean()

    @tf.function
    def test_step(inputs, wanted):
        outputs = tf.reshape(model(inputs), [inputs.shape[0], 2])
        mean(tf.reduce_sum(tf.square(outputs - wanted)) / (inputs.shape[0] or 1))
        return outputs

    rows = np.concatenate([test_step(*batch) for batch in ad.shard(dataset)])
    model.fit(dataset, shuffle=False, verbose=0)
    by_batch = [model.test_on_batch(*batch) for batch in dataset]
    return {"weights": model.get_weights(), "found": np.array([mean.result(), *np.ravel(by_batch)]), "rows": [rows]}


def parts_outside_of_steps(ad):
    """What a loop over parts of batches must not do; says what is refused."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    dataset = tf.data.Dataset.from_tensor_slices(np.ones((8, 2), "float32")).batch(4)
    with ad.scope():
        total = sum(float(tf.reduce_sum(part)) for part in ad.shard(dataset))
        for part in ad.shard(dataset):
            try:
                model.predict_on_batch(part)
            except autodist.errors.UsageError as error:
                print(f"of {total}: {error}")
                break


PROGRAMS = (without_batch, outside, quickstart, evaluations)


def results(ad, scope):
    """By name, what the programs find."""
    found = {}
    with scope():
        for program in PROGRAMS:
            for name, value in program(ad).items():
                several = value if isinstance(value, list) else [value]
                found |= {f"{program.__name__}.{name}.{k}": np.asarray(one) for k, one in enumerate(several)}
    return found


def plain():
    """What they find on one device."""
    return results(Plain, contextlib.nullcontext)


if __name__ == "__main__":
    distributed = autodist.AutoDist()
    np.savez(f"{sys.argv[1]}.{os.environ['RANK']}.npz", **results(distributed, distributed.scope))
    parts_outside_of_steps(distributed)
