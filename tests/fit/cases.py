"""Ways to train by `fit`, one function each: `CASES` by name."""

import keras
import numpy as np
import tensorflow as tf

from .data import (
    BATCH,
    EXAMPLES,
    WIDTH,
    Batches,
    adam,
    arrays,
    classifier,
    compiled,
    dataset,
    generator,
    held_out,
    labels,
    outcome,
    regression,
    weights,
)

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def fit(model, *data, **options):
    options = {"epochs": 2, "verbose": 0, "shuffle": False, **options}
    if data and isinstance(data[0], np.ndarray | dict | list):
        options = {"batch_size": BATCH, **options}
    elif not isinstance(data[0], keras.utils.PyDataset):
        options.pop("shuffle")
    return model.fit(*data, **options)


def fitted(*data, model=None, compile=None, **options):
    model = compiled(model, **(compile or {}))
    return outcome(model, fit(model, *data, **options))


# Data, what `fit` takes, metrics -------------------------------------------------------------------------------------


class WorstError(keras.metrics.Metric):
    """A metric of its own kind, with state that is neither sum nor mean of what the library has."""

    def __init__(self, **options):
        super().__init__(name="squares_over_count", **options)
        self.squares = self.add_weight(name="squares", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.squares.assign_add(tf.reduce_sum(tf.square(y_true - y_pred)))
        self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))

    def result(self):
        return tf.sqrt(self.squares / self.count)


class LargestError(keras.metrics.Metric):
    """A metric whose state is a maximum."""

    def __init__(self, **options):
        super().__init__(name="largest_error", **options)
        self.largest = self.add_weight(name="largest", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(tf.abs(y_true - y_pred))))

    def result(self):
        return self.largest


def pearson(y_true, y_pred):
    """Centres, as metrics of regressions do."""
    a, b = y_true - tf.reduce_mean(y_true, 0), y_pred - tf.reduce_mean(y_pred, 0)
    return tf.reduce_sum(a * b) / tf.sqrt(tf.reduce_sum(a * a) * tf.reduce_sum(b * b) + 1e-6)


def median_error(y_true, y_pred):
    """Sorts."""
    errors = tf.sort(tf.reshape(tf.abs(y_true - y_pred), [-1]))
    return errors[tf.shape(errors)[0] // 2]


def neighbours(y_true, y_pred):
    """Compares each example with the one before."""
    return tf.reduce_mean(tf.cast((y_true - tf.roll(y_true, 1, 0)) * (y_pred - tf.roll(y_pred, 1, 0)) > 0, "float32"))


@case
def arrays_and_regression_metrics():
    """Shuffled arrays, validation arrays, metrics of all makings, regularizers and constraints."""
    metrics = ["mse", "mape", "msle", keras.metrics.LogCoshError(), keras.metrics.RootMeanSquaredError(), WorstError()]
    metrics += [keras.metrics.CosineSimilarity(), keras.metrics.R2Score()]
    metrics += [LargestError(), pearson, median_error, neighbours]
    model = regression(kernel_regularizer="l2", bias_regularizer="l1", kernel_constraint=keras.constraints.MaxNorm(0.5))
    return fitted(*arrays(), model=model, compile={"metrics": metrics}, shuffle=True, validation_data=held_out())


@case
def tensors_with_one_example_left():
    """The last of three batches has one example, fewer than there are replicas; so has that of validation."""
    data = [tf.constant(part) for part in arrays(2 * BATCH + 1)]
    model = compiled()
    history = model.fit(*data, batch_size=BATCH, epochs=2, verbose=0, validation_split=0.0, initial_epoch=1)
    return outcome(model, history, arrays(BATCH + 1))


@case
def weighted_dataset():
    """A shuffled dataset with sample weights, validation in every other epoch, several steps per execution."""
    data = (*arrays(), np.linspace(0, 2, EXAMPLES).astype("float32"))
    shuffled = tf.data.Dataset.from_tensor_slices(data).shuffle(30, seed=3).batch(5).prefetch(2)
    compile = {"weighted_metrics": ["mae", "mse"], "steps_per_execution": 2}
    return fitted(shuffled, compile=compile, validation_data=dataset(data, 4), validation_freq=2, epochs=3)


@case
def repeated_dataset():
    """Datasets without end, of dicts."""
    x, y = arrays()
    model = keras.Sequential([keras.Input([WIDTH], name="features"), keras.layers.Dense(1)])
    endless = tf.data.Dataset.from_tensor_slices(({"features": x}, y)).repeat().batch(BATCH)
    return fitted(
        endless, model=model, steps_per_epoch=4, validation_data=endless, validation_steps=2, epochs=3, initial_epoch=1
    )


@case
def python_generators():
    def largest_share(y_true, y_pred):
        return keras.ops.mean(keras.ops.cast(keras.ops.abs(y_true - y_pred) < 0.5, "float32"), axis=-1)

    options = {"steps_per_epoch": 3, "validation_data": generator(held_out()), "validation_steps": 2}
    model = compiled(metrics=[largest_share])
    first = fit(model, generator(), **options).history
    ending = (batch for batch, _ in zip(generator(), range(3), strict=False))
    found = {"first": first} | outcome(model, fit(model, ending, epochs=1))
    # On one device, the call that finds the end of the data may have counted a step by then.
    found["weights"] = {name: value for name, value in found["weights"].items() if "iteration" not in name}
    return found


@case
def py_datasets():
    """Sequences, one read by threads; a loss of what layers add."""
    model = keras.Sequential(
        [
            keras.Input([WIDTH]),
            keras.layers.Dense(5, activation="tanh", activity_regularizer="l2"),
            Penalty(),
            keras.layers.Dense(1),
        ]
    )
    return fitted(Batches(workers=2, max_queue_size=4), model=model, validation_data=Batches(held_out(), 5))


@case
def binary_metrics():
    """Class weights, and metrics that are no means."""
    x, y = arrays()
    y = (y > 1).astype("float32")
    m = keras.metrics
    metrics = ["accuracy", m.AUC(), m.AUC(curve="PR", name="pr"), m.Precision(), m.Recall(), m.TruePositives()]
    metrics += [m.FalseNegatives(), m.SensitivityAtSpecificity(0.5), m.F1Score(threshold=0.5), m.BinaryIoU()]
    model = compiled(classifier(1, "sigmoid"), loss="binary_crossentropy", metrics=metrics)
    return outcome(model, fit(model, x, y, validation_split=0.2, class_weight={0: 0.2, 1: 2.0}), (x, y))


@case
def class_metrics():
    """Steps per epoch, sample weights of arrays and of the data of validation."""
    x, y = labels()
    one_hot, sample_weight = keras.utils.to_categorical(y, 3), np.linspace(0, 2, EXAMPLES)
    m = keras.metrics
    metrics = ["accuracy", m.F1Score(average="macro"), m.OneHotMeanIoU(3), m.TopKCategoricalAccuracy(2)]
    compile = {"loss": "categorical_crossentropy", "metrics": metrics, "weighted_metrics": ["accuracy"]}
    options = {"steps_per_epoch": 2, "epochs": 3, "validation_data": (x, one_hot, sample_weight)}
    model = compiled(classifier(), **compile)
    return outcome(model, fit(model, x, one_hot, sample_weight=sample_weight, **options), (x, one_hot))


# Models --------------------------------------------------------------------------------------------------------------


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(5, activation="tanh")
        self.out = keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.out(self.hidden(x))


class OwnTrainStep(Subclassed):
    def __init__(self):
        super().__init__()
        self.seen = keras.metrics.Mean(name="seen")

    @property
    def metrics(self):
        return [self.seen]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.seen.update_state(loss, tf.shape(x)[0])
        return {"seen": self.seen.result(), "loss": loss}

    def test_step(self, data):
        x, y = data
        self.seen.update_state(tf.abs(self(x) - y))
        return {"seen": self.seen.result()}

    def predict_step(self, data):
        return {"twice": 2 * self(data[0] if isinstance(data, tuple) else data)}


@case
def own_steps():
    model = OwnTrainStep()
    model.compile(optimizer=adam())
    return outcome(model, fit(model, *arrays(), validation_data=held_out()))


class OwnLoss(Subclassed):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return tf.reduce_mean(tf.square(y - y_pred)) + 0.01 * tf.reduce_sum(tf.square(self.hidden.kernel))


@case
def own_loss():
    return fitted(*arrays(), model=OwnLoss(), compile={"loss": None}, validation_data=dataset(held_out()))


class Penalty(keras.layers.Layer):
    """Adds to the loss what it sees."""

    def call(self, x):
        self.add_loss(0.01 * tf.reduce_mean(tf.square(x)))
        return x


def two_by_two():
    a, b = keras.Input([WIDTH], name="a"), keras.Input([2], name="b")
    hidden = keras.layers.Dense(5, activation="tanh")(keras.layers.Concatenate()([a, b]))
    value = keras.layers.Dense(1, name="value")(hidden)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(hidden)
    return keras.Model([a, b], {"value": value, "kind": kind})


def two_by_two_data():
    x, y = arrays()
    return {"a": x, "b": x[:, :2] ** 2}, {"value": y, "kind": labels()[1]}


@case
def several_inputs_and_outputs():
    model, (x, y) = two_by_two(), two_by_two_data()
    model.compile(
        adam(),
        loss={"value": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"value": 0.3, "kind": 2.0},
        metrics={"value": ["mae"], "kind": ["accuracy"]},
    )
    history = fit(model, x, y, validation_data=(x, y))
    return outcome(model, history, (x, y))


def sequences():
    random = np.random.default_rng(4)
    ids = random.integers(1, 9, size=(EXAMPLES, 5)).astype("int32")
    ids[np.arange(5) >= random.integers(2, 6, size=(EXAMPLES, 1))] = 0
    return ids, (ids / 9).astype("float32")[..., None]


@case
def embedding_and_masks():
    """Sparse gradients; and a loss over what masks leave of sequences."""
    ids, values = sequences()
    layers = [keras.Input([5], dtype="int32"), keras.layers.Embedding(9, 4), keras.layers.Flatten()]
    model = compiled(keras.Sequential([*layers, keras.layers.Dense(1)]), optimizer=keras.optimizers.SGD(0.1))
    found = outcome(model, fit(model, ids, values[:, 0], validation_split=0.2), (ids, values[:, 0]))
    layers = [keras.Input([5], dtype="int32"), keras.layers.Embedding(9, 4, mask_zero=True)]
    masked = keras.Sequential([*layers, keras.layers.LSTM(3, return_sequences=True), keras.layers.Dense(1)])
    return {"embedding": found} | outcome(masked, fit(compiled(masked), ids, values), (ids, values))


@case
def convolution():
    """Compiled by XLA."""
    random = np.random.default_rng(5)
    images = random.normal(size=(EXAMPLES, 6, 6, 2)).astype("float32")
    layers = [keras.Input([6, 6, 2]), keras.layers.Conv2D(3, 3, activation="relu"), keras.layers.LayerNormalization()]
    model = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)])
    data = images, arrays()[1]
    model = compiled(model, jit_compile=True)
    return outcome(model, fit(model, *data, validation_split=0.2), data)


# Several calls -------------------------------------------------------------------------------------------------------


@case
def on_batches():
    (x, y), model = arrays(), compiled()
    trained = [model.train_on_batch(x[k : k + 7], y[k : k + 7]) for k in range(0, 21, 7)]
    weighted = model.train_on_batch(x[:5], y[:5], sample_weight=np.linspace(0, 1, 5), return_dict=True)
    trained.append(list(weighted.values()))
    tested = [model.test_on_batch(x[:n], y[:n]) for n in (8, 5, 1)]
    return {"trained": trained, "tested": tested, "predicted": model.predict_on_batch(x[:5])} | outcome(model)


@case
def in_turns():
    """Fits, evaluations and predictions between each other, on data of all kinds."""
    model, seen = compiled(), []
    for data in ((arrays(), {}), ((dataset(),), {}), ((generator(),), {"steps_per_epoch": 2})):
        fit(model, *data[0], epochs=1, **data[1])
        seen.append(model.evaluate(dataset(held_out()), verbose=0))
        seen.append(model.evaluate(Batches(held_out()), verbose=0))
        seen.append(model.evaluate(generator(held_out()), steps=2, verbose=0))
        seen.append(model.predict(dataset(held_out()).map(lambda x, y: x), verbose=0))
        seen.append(model.predict(held_out()[0], batch_size=50, verbose=0))
    return {"seen": seen} | outcome(model)


@case
def fitted_again():
    """Evaluated before the first `fit`, fitted twice, weights and learning rate set between, compiled again, frozen."""
    model = compiled()
    first = outcome(model)
    history = [fit(model, *arrays(), epochs=1).history, fit(model, *arrays(), epochs=3, initial_epoch=1).history]
    model.set_weights([0.5 * w for w in model.get_weights()])
    model.optimizer.learning_rate = 0.005
    history.append(fit(model, dataset(), validation_data=held_out()).history)
    before = weights(model)
    kernel = model.layers[0].kernel.numpy()
    model.layers[0].trainable = False
    compiled(model, optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mae", metrics=["mse"])
    last = fit(model, *arrays(), validation_data=held_out())
    assert np.array_equal(kernel, model.layers[0].kernel.numpy()), "it is frozen"
    found = {"first": first["evaluate"], "predicted": first["predict"], "history": history, "before": before}
    return {"again": found} | outcome(model, last)


@case
def two_models_in_turns():
    one, other = compiled(), compiled(optimizer="sgd", loss="mae")
    for _ in range(2):
        fit(one, *arrays(), epochs=1, validation_data=held_out())
        fit(other, dataset(), epochs=1, validation_data=held_out())
    return {"other": outcome(other)} | outcome(one)
