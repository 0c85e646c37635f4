"""Training steps of Keras models, captured for batches of one size."""

import keras
import tensorflow as tf

from autodist.graph import VariableNames, capture


def captured(model, loss, optimizer, *specs):
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    return capture(step, list(specs), VariableNames()).graph.with_batch_size(specs[0].shape[0])


def dense(batch, *widths, optimizer=None):
    keras.utils.clear_session()
    layers = [keras.layers.Dense(width, activation="relu", name=f"d{n}") for n, width in enumerate(widths[1:])]
    model = keras.Sequential([keras.Input(widths[:1]), *layers])
    specs = [tf.TensorSpec([batch, widths[0]]), tf.TensorSpec([batch, widths[-1]])]
    return captured(model, keras.losses.MeanSquaredError(), optimizer or keras.optimizers.SGD(0.1), *specs)


def convolutional(batch):
    """Small convolutions and large dense layers, as AlexNet has them."""
    keras.utils.clear_session()
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(16, 3, padding="same", activation="relu", name="c0"),
            layers.BatchNormalization(name="n0"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(512, activation="relu", name="d0"),
            layers.Dropout(0.5, seed=1),
            layers.Dense(8, name="d1"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    specs = [tf.TensorSpec([batch, 16, 16, 3]), tf.TensorSpec([batch], tf.int32)]
    return captured(model, loss, keras.optimizers.Adam(), *specs)


def transformer(batch, words=16, width=64, heads=4, vocabulary=2048, layers=1):
    keras.utils.clear_session()
    made = keras.layers
    given = keras.Input((words,), dtype="int32")
    x = made.Embedding(vocabulary, width, name="words")(given)
    for number in range(layers):
        attended = made.MultiHeadAttention(heads, width // heads, name=f"a{number}")(x, x)
        x = made.LayerNormalization(name=f"n{number}")(x + attended)
        inner = made.Dense(4 * width, activation="gelu", name=f"f{number}")(x)
        x = made.LayerNormalization(name=f"m{number}")(x + made.Dense(width, name=f"g{number}")(inner))
    model = keras.Model(given, made.Dense(vocabulary, name="logits")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    specs = [tf.TensorSpec([batch, words], tf.int32)] * 2
    return captured(model, loss, keras.optimizers.Adam(), *specs)


def recurrent(batch, *, unroll):
    keras.utils.clear_session()
    cells = keras.layers.LSTM(32, unroll=unroll, name="cells")
    model = keras.Sequential([keras.Input((6, 16)), cells, keras.layers.Dense(8, name="last")])
    specs = [tf.TensorSpec([batch, 6, 16]), tf.TensorSpec([batch, 8])]
    return captured(model, keras.losses.MeanSquaredError(), keras.optimizers.Adam(), *specs)
