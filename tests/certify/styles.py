"""Ways to write a training step × kinds of model × optimizers: cases `STYLE-KIND-OPTIMIZER`."""

import functools
import itertools

import keras
import tensorflow as tf

import autodist

from .data import BATCH_SIZES, Case, PlainModel, batches, keras_model, mean_squared

STYLES = ("fit", "loop", "tf_function", "v1", "session", "raw")
KINDS = ("dense", "embedding", "lookup")
OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad")


def keras_optimizer(name):
    return {
        "sgd": lambda: keras.optimizers.SGD(0.1),
        "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        "adam": lambda: keras.optimizers.Adam(0.01),
        "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    }[name]()


def v1_optimizer(name):
    train = tf.compat.v1.train
    return {
        "sgd": lambda: train.GradientDescentOptimizer(0.1),
        "momentum": lambda: train.MomentumOptimizer(0.05, 0.9),
        "adam": lambda: train.AdamOptimizer(0.01),
        "adagrad": lambda: train.AdagradOptimizer(0.1),
    }[name]()


def fit(ad, kind, optimizer):
    model = keras_model(kind)
    model.compile(optimizer=keras_optimizer(optimizer), loss="mse", metrics=["mae"])
    for x, y in batches(kind):
        model.fit(x, y, batch_size=max(BATCH_SIZES), shuffle=False, verbose=0)


def loop(ad, kind, optimizer):
    model, keras_opt = keras_model(kind), keras_optimizer(optimizer)

    @autodist.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        keras_opt.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return {"loss": loss}

    for x, y in batches(kind):
        step(x, y)


def tf_function(ad, kind, optimizer):
    model, keras_opt = PlainModel(kind), keras_optimizer(optimizer)
    keras_opt.build(model.variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        keras_opt.apply(tape.gradient(loss, model.variables), model.variables)
        return loss

    for x, y in batches(kind):
        step(x, y)


def v1(ad, kind, optimizer):
    model, v1_opt = PlainModel(kind), v1_optimizer(optimizer)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        v1_opt.apply_gradients(zip(tape.gradient(loss, model.variables), model.variables, strict=True))
        return loss

    for x, y in batches(kind):
        step(x, y)


def session(ad, kind, optimizer):
    """A graph that is built first and run by a session."""
    ids = kind != "dense"
    with tf.Graph().as_default():
        model = PlainModel(kind)
        x = tf.compat.v1.placeholder(tf.int32 if ids else tf.float32, [None, 3 if ids else 6])
        y = tf.compat.v1.placeholder(tf.float32, [None, 1])
        loss = mean_squared(y, model(x))
        train = v1_optimizer(optimizer).minimize(loss, var_list=model.variables)
        running = ad.Session()
        running.run(tf.compat.v1.global_variables_initializer())
        for batch in batches(kind):
            running.run([loss, train], dict(zip((x, y), batch, strict=True)))


def raw(ad, kind, optimizer):
    model = PlainModel(kind)
    slots = [[tf.Variable(tf.zeros(v.shape), name=f"{v.name[:-2]}_{k}") for k in "mv"] for v in model.variables]
    update = functools.partial(RAW_UPDATES[optimizer], count=tf.Variable(0.0, name="count"))

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        for gradient, variable, (m, v) in zip(
            tape.gradient(loss, model.variables), model.variables, slots, strict=True
        ):
            update(gradient, variable, m, v)
        return loss

    for x, y in batches(kind):
        step(x, y)


def raw_sgd(gradient, variable, m, v, count):
    if isinstance(gradient, tf.IndexedSlices):
        variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
    else:
        variable.assign_sub(0.1 * gradient)


def raw_momentum(gradient, variable, m, v, count):
    m.assign(0.9 * m + dense(gradient))
    variable.assign_sub(0.05 * m)


def raw_adam(gradient, variable, m, v, count):
    count.assign_add(1.0)
    gradient = dense(gradient)
    m.assign(0.9 * m + 0.1 * gradient)
    v.assign(0.99 * v + 0.01 * tf.square(gradient))
    variable.assign(variable - 0.01 * m / (tf.sqrt(v) + 1e-3) / (1.0 - 0.9**count))


def raw_adagrad(gradient, variable, m, v, count):
    if isinstance(gradient, tf.IndexedSlices):
        v.scatter_add(tf.IndexedSlices(tf.square(gradient.values), gradient.indices))
        scale = 0.1 * tf.math.rsqrt(tf.gather(v, gradient.indices) + 0.1)
        variable.scatter_sub(tf.IndexedSlices(scale * gradient.values, gradient.indices))
    else:
        v.assign_add(tf.square(gradient))
        variable.assign_sub(0.1 * gradient * tf.math.rsqrt(v + 0.1))


def dense(gradient):
    """A sparse gradient as a whole tensor, without TensorFlow's warning that it may be large."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, gradient.dense_shape[0])


RAW_UPDATES = {"sgd": raw_sgd, "momentum": raw_momentum, "adam": raw_adam, "adagrad": raw_adagrad}
TRAIN = {"fit": fit, "loop": loop, "tf_function": tf_function, "v1": v1, "session": session, "raw": raw}
CASES = {
    f"{style}-{kind}-{optimizer}": Case(functools.partial(TRAIN[style], kind=kind, optimizer=optimizer))
    for style, kind, optimizer in itertools.product(STYLES, KINDS, OPTIMIZERS)
}
