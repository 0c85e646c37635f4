"""Programs that train, save, restore in every way and train on: `saving.py OUT --save DIR --restore DIR ...`.

Without `autodist run` and with `--plain` they are ordinary programs of one device, which everything is compared with.
"""

import argparse
import contextlib
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

RANK = int(os.environ.get("RANK", "0"))
ROWS, BATCH, FIRST, NEXT = 48, 6, 4, 3
PLAN = Path(__file__).with_name("mixed.yml")


def data(first, count):
    random = np.random.default_rng(0)
    ids = random.integers(0, 40, size=(ROWS, 3))
    y = np.sin(ids.sum(1, keepdims=True)).astype("float32")
    rows = slice(first * BATCH, (first + count) * BATCH)
    return tf.data.Dataset.from_tensor_slices((ids[rows], y[rows])).batch(BATCH)


def adam(rate=0.02):
    return keras.optimizers.Adam(rate, epsilon=1e-2)  # round-off of gradients near 0 must not become whole steps


def layers(outputs=1):
    return [
        keras.layers.Embedding(40, 8, name="table"),
        keras.layers.Flatten(name="flat"),
        keras.layers.Dense(24, "tanh", name="wide"),
        keras.layers.BatchNormalization(name="norm", trainable=False),
        keras.layers.Dense(outputs, name="head"),
    ]


def built(outputs=1):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), *layers(outputs)])
    model.compile(adam(), keras.losses.MeanSquaredError(), metrics=[keras.metrics.MeanAbsoluteError()])
    return model


def fit(model, first=FIRST, count=NEXT, **options):
    model.fit(data(first, count), verbose=0, shuffle=False, **options)
    return model


# With fit ------------------------------------------------------------------------------------------------------------


def save_keras(directory):
    model = fit(built(), 0, FIRST, callbacks=[keras.callbacks.ModelCheckpoint(directory / "callback.keras")])
    model.save(directory / "model.keras")
    keras.saving.save_model(model, directory / "function.keras")
    model.save_weights(directory / "model.weights.h5")
    keras.saving.save_weights(model, directory / "function.weights.h5")
    tf.train.Checkpoint(model=model).save(str(directory / "checkpoint/ckpt"))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), str(directory / "manager"), max_to_keep=1)
    for _ in range(2):
        manager.save()
    model.save(str(directory / "model.h5"))  # at last: Keras spoils what it knows of `compile` here
    return fit(model)


class Loader(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_begin(self, epoch, logs=None):
        self.model.load_weights(self.path)


def restored(model, path):
    return tf.train.Checkpoint(model=model).restore(path)


def from_checkpoint_before(directory):
    model = built()
    status = restored(model, str(directory / "checkpoint/ckpt-1"))
    fit(model)
    status.assert_existing_objects_matched()
    return model


def from_checkpoint_after(directory):
    model = fit(built(), 5, 2)
    restored(model, tf.train.latest_checkpoint(str(directory / "manager"))).assert_existing_objects_matched()
    return fit(model)


def from_checkpoint_deferred(directory):
    """Neither weights nor slots exist when it is restored."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(layers())
    model.compile(adam(), keras.losses.MeanSquaredError(), metrics=[keras.metrics.MeanAbsoluteError()])
    restored(model, str(directory / "checkpoint/ckpt-1"))
    return fit(model)


def from_weights_before(directory):
    model = built()
    model.optimizer.build(model.trainable_variables)
    model.load_weights(directory / "model.weights.h5")
    return fit(model)


def from_weights_after(directory):
    model = fit(built(), 5, 2)
    model.load_weights(directory / "function.weights.h5")
    return fit(model)


def from_weights_in_callback(directory):
    model = built()
    model.optimizer.build(model.trainable_variables)
    return fit(model, callbacks=[Loader(directory / "model.weights.h5")])


def skipping_mismatch(directory):
    model = built(outputs=2)
    model.load_weights(directory / "model.weights.h5", skip_mismatch=True)
    return fit(model)


def only_weights(directory):
    """The checkpoint has slots of another optimizer besides."""
    model = keras.Sequential([keras.Input((3,), dtype="int32"), *layers()])
    tf.train.Checkpoint(model=model).restore(str(directory / "checkpoint/ckpt-1")).expect_partial()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    return fit(model)


def transferred(directory):
    """Layers of another model, frozen first and then not."""
    other = keras.models.load_model(directory / "model.keras")
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), *other.layers[:-1], keras.layers.Dense(1, name="new")])
    for layer in model.layers[:-1]:
        layer.trainable = False
    model.compile(adam(), "mse")
    fit(model)
    for layer in model.layers:
        layer.trainable = layer.name != "norm"  # whose statistics would be those of a replica's examples
    model.compile(adam(0.005), "mse")
    return fit(model, 0, 2)


def from_h5(directory):
    """Of such a file Keras can't go on with the optimizer."""
    model = keras.models.load_model(directory / "model.h5", compile=False)
    model.compile(adam(), "mse")
    return fit(model)


GOING_ON = {
    "keras": lambda d: fit(keras.models.load_model(d / "model.keras")),
    "function": lambda d: fit(keras.saving.load_model(d / "function.keras")),
    "callback": lambda d: fit(keras.models.load_model(d / "callback.keras")),
    "checkpoint_before": from_checkpoint_before,
    "checkpoint_after": from_checkpoint_after,
    "checkpoint_deferred": from_checkpoint_deferred,
    "weights_before": from_weights_before,
    "weights_after": from_weights_after,
    "weights_in_callback": from_weights_in_callback,
}
OTHERS = {"h5": from_h5, "skip_mismatch": skipping_mismatch, "only_weights": only_weights, "transfer": transferred}


# With a loop of one's own --------------------------------------------------------------------------------------------


class Loop(tf.Module):
    """Two optimizers, a counter, an iterator."""

    def __init__(self):
        super().__init__()
        keras.utils.set_random_seed(3)
        self.model = keras.Sequential([keras.Input((3,), dtype="int32"), *layers()[:-1]])
        self.head = tf.Variable(np.random.default_rng(3).normal(size=(24, 1)).astype("float32") / 5, name="head")
        self.one, self.two = adam(), keras.optimizers.SGD(0.05, momentum=0.9)
        self.steps = tf.Variable(0, dtype=tf.int64)
        self.batches = iter(data(0, FIRST + NEXT).repeat())

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(self.model(x, training=True), self.head) - y))
            variables = self.model.trainable_variables
            *inner, outer = tape.gradient(loss, [*variables, self.head])
            self.one.apply_gradients(zip(inner, variables, strict=True))
            self.two.apply_gradients([(outer, self.head)])
            self.steps.assign_add(1)
            return loss

        self.step = step

    def train(self, count):
        for _ in range(count):
            self.step(*next(self.batches))
        return self

    def checkpoint(self):
        return tf.train.Checkpoint(
            model=self.model, head=self.head, one=self.one, two=self.two, steps=self.steps, batches=self.batches
        )

    @property
    def kept(self):
        return [*self.model.variables, self.head, *self.one.variables, *self.two.variables, self.steps]


def save_loop(directory):
    loop = Loop().train(FIRST)
    loop.checkpoint().save(str(directory / "loop/ckpt"))
    loop.checkpoint().write(str(directory / "loop/written"))
    return loop.train(NEXT)


def loop_before(directory):
    loop = Loop()
    loop.checkpoint().restore(tf.train.latest_checkpoint(str(directory / "loop")))
    return loop.train(NEXT)


def loop_after(directory):
    loop = Loop().train(2)
    loop.checkpoint().read(str(directory / "loop/written")).assert_consumed()
    return loop.train(NEXT)


LOOPS = {"loop_before": loop_before, "loop_after": loop_after}


# In TensorFlow 1 style -----------------------------------------------------------------------------------------------


class Graph:
    """Two placeholders of the batch, slots, a global step."""

    def __init__(self, session):
        v1 = tf.compat.v1
        v1.set_random_seed(4)
        self.x, self.y = v1.placeholder(tf.int32, [None, 3]), v1.placeholder(tf.float32, [None, 1])
        table = v1.get_variable("table", [40, 8])
        hidden = tf.tanh(tf.reshape(tf.nn.embedding_lookup(table, self.x), [-1, 24]) @ v1.get_variable("w", [24, 24]))
        loss = tf.reduce_mean(tf.square(hidden @ v1.get_variable("v", [24, 1]) - self.y))
        step = v1.train.get_or_create_global_step()
        self.train_op = v1.train.AdamOptimizer(0.02, epsilon=1e-2).minimize(loss, global_step=step)
        self.saver = v1.train.Saver()
        self.session = session()
        self.session.run(v1.global_variables_initializer())

    def train(self, first, count):
        for x, y in BATCHES[first : first + count]:
            self.session.run(self.train_op, {self.x: x, self.y: y})

    def values(self):
        variables = tf.compat.v1.global_variables()
        return {v.op.name: value for v, value in zip(variables, self.session.run(variables), strict=True)}


BATCHES = [(x.numpy(), y.numpy()) for x, y in data(0, FIRST + NEXT)]


def save_graph(directory, session):
    graph = Graph(session)
    graph.train(0, FIRST)
    (directory / "graph").mkdir(exist_ok=True)
    step = tf.compat.v1.train.get_global_step()
    graph.saver.save(graph.session, str(directory / "graph/model"), global_step=step)
    graph.train(FIRST, NEXT)
    return graph.values()


def graph_before(directory, session):
    graph = Graph(session)
    graph.saver.restore(graph.session, tf.train.latest_checkpoint(str(directory / "graph")))
    graph.train(FIRST, NEXT)
    return graph.values()


def graph_after(directory, session):
    graph = Graph(session)
    graph.train(1, 2)
    graph.saver.restore(graph.session, tf.train.latest_checkpoint(str(directory / "graph")))
    graph.train(FIRST, NEXT)
    return graph.values()


GRAPHS = {"graph_before": graph_before, "graph_after": graph_after}


# ---------------------------------------------------------------------------------------------------------------------


def values(trained):
    if isinstance(trained, Loop):
        return {f"{k} {v.name}": v.numpy() for k, v in enumerate(trained.kept)}
    return {f"{k} {v.path}": v.numpy() for k, v in enumerate((*trained.variables, *trained.optimizer.variables))}


def listed(trained):
    return {name: value.tolist() for name, value in values(trained).items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--restore", type=Path, nargs="*", default=[])
    parser.add_argument("--ways", nargs="*", default=[*GOING_ON, *OTHERS, *LOOPS, *GRAPHS])
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    if arguments.plain:
        scope, ad = contextlib.nullcontext, None
    else:
        import autodist

        ad = autodist.AutoDist()
        scope = ad.scope
    found = {}

    def run(name, program, directory):
        print(name, file=sys.stderr, flush=True)
        keras.utils.clear_session()
        with scope():
            trained = program(directory)
            if ad is None:
                found[name] = values(trained)
        found[name] = values(trained)

    def run_graph(name, program, directory):
        print(name, file=sys.stderr, flush=True)
        with tf.Graph().as_default(), scope():
            found[name] = program(directory, tf.compat.v1.Session if ad is None else ad.Session)

    if arguments.save is not None:
        arguments.save.mkdir(parents=True, exist_ok=True)
        run("undisturbed", save_keras, arguments.save)
        run("undisturbed loop", save_loop, arguments.save)
        run_graph("undisturbed graph", save_graph, arguments.save)
    for directory in arguments.restore:
        for way in arguments.ways:
            if way in GRAPHS:
                run_graph(f"{directory.name} {way}", GRAPHS[way], directory)
            else:
                run(f"{directory.name} {way}", {**GOING_ON, **OTHERS, **LOOPS}[way], directory)
    flat = {f"{name}|{key}": value for name, one in found.items() for key, value in one.items()}
    np.savez(f"{arguments.out}-{RANK}.npz", **flat)


if __name__ == "__main__":
    main()
