"""What trains without a warning: the models of `examples/models`, and what users' models are made of."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import warnings_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import models

LARGER = {"bert_6", "bert_12", "bert_large"}
"""Those that differ from `bert_3` in numbers only."""
LONG = {"inception", "densenet", "transformer", "bert_3", "bidirectional"}
"""Those that take long, and of which `resnet`, `masked_attention` and `lstm` have most."""
NAMES = [n for n in models.names() if n not in LARGER and not n.startswith("hub_")]


def warnings(step, arrays):
    specs = [tf.TensorSpec(np.shape(a), np.asarray(a).dtype) for a in arrays]
    return warnings_of(capture(step, specs, VariableNames()).graph)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in NAMES])
def test_examples_are_not_warned_of(name):
    keras.utils.set_random_seed(1)
    training = models.get(name).build("tiny")
    batch = training.batch(0)
    flat = tf.nest.flatten(batch)
    assert not warnings(lambda *args: training.step(*tf.nest.pack_sequence_as(batch, args)), flat)


def image_model():
    k = keras.layers
    layers = [k.RandomFlip(), k.RandomRotation(0.1), k.RandomZoom(0.1), k.RandomContrast(0.1), k.Rescaling(0.5)]
    layers += [k.Conv2D(4, 3, dilation_rate=2), k.BatchNormalization(), k.ReLU(), k.SeparableConv2D(4, 3)]
    layers += [k.Conv2DTranspose(3, 3), k.UpSampling2D(), k.MaxPooling2D(), k.GroupNormalization(3)]
    layers += [k.SpatialDropout2D(0.2), k.SpectralNormalization(k.Conv2D(2, 3)), k.GlobalAveragePooling2D()]
    return keras.Sequential([keras.Input([16, 16, 3]), *layers, k.Dense(2, activity_regularizer="l2")])


def text_model():
    k = keras.layers
    ids = keras.Input([6], dtype="int32")
    rows = k.Embedding(20, 8, mask_zero=True)(ids)
    rows = k.LayerNormalization()(rows + k.MultiHeadAttention(2, 4, dropout=0.1)(rows, rows, use_causal_mask=True))
    rows = k.Bidirectional(k.LSTM(4, return_sequences=True))(rows)
    rows = k.Conv1D(4, 2, padding="causal")(k.TimeDistributed(k.Dense(4))(rows))
    counts = k.Dense(4)(k.CategoryEncoding(20, output_mode="count")(ids))
    return keras.Model(ids, k.Dense(2)(k.Concatenate()([k.GlobalMaxPooling1D()(rows), counts])))


IMAGES = np.zeros([8, 16, 16, 3], "float32")
IDS = np.zeros([8, 6], "int32")


@pytest.mark.parametrize(("make", "x"), [(image_model, IMAGES), (text_model, IDS)])
def test_layers_metrics_and_optimizers(make, x):
    """A whole step of Keras' own `fit`, with metrics of all makings."""
    keras.utils.set_random_seed(1)
    model = make()
    metrics = ["mae", keras.metrics.R2Score(), keras.metrics.CosineSimilarity(), keras.metrics.AUC(from_logits=True)]
    optimizer = keras.optimizers.AdamW(0.1, global_clipnorm=1.0, use_ema=True)
    model.compile(optimizer, "mse", metrics=metrics)
    y = np.zeros([8, 2], "float32")
    model._symbolic_build(data_batch=(x, y))  # as `fit` does: the variables of metrics and optimizer
    assert not warnings(lambda x, y: model.train_step((x, y)), [x, y])


LOSSES = {
    "crossentropy": lambda y, p: keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)(y, p),
    "cosine": lambda y, p: keras.losses.CosineSimilarity()(y, p),
    "dice of each example": lambda y, p: keras.losses.Dice(axis=(1,))(y, tf.sigmoid(p)),
    "focal": lambda y, p: keras.losses.BinaryFocalCrossentropy(from_logits=True)(y, p),
    "ctc": lambda y, p: keras.losses.CTC()(tf.cast(y[:, :1] > 0, tf.int32) + 1, tf.tile(p[:, None], [1, 3, 1])),
    "by tokens": lambda y, p: tf.reduce_sum(p * y) / tf.maximum(1.0, tf.reduce_sum(y)),
    "picked": lambda y, p: tf.reduce_mean(tf.boolean_mask(tf.square(p - y), y > 0)) + tf.reduce_mean(tf.square(p)),
    "policy": lambda y, p: -tf.reduce_mean(tf.nn.log_softmax(p) * tf.one_hot(tf.random.categorical(p, 1)[:, 0], 2) * y),
    "spectrum": lambda y, p: tf.reduce_mean(tf.abs(tf.signal.stft(tf.tile(p, [1, 4]), 4, 2))),
    "reparametrized": lambda y, p: tf.reduce_mean(tf.square(y + p * tf.random.normal(tf.shape(p)))),
    "views behind each other": lambda y, p: tf.reduce_mean(tf.square(tf.subtract(*tf.split(tf.concat([y, p], 0), 2)))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_keras_are_not_warned_of(name):
    w = tf.Variable([[1.0, 0.5], [2.0, -1.0]], name="w")

    def step(x, y):
        with tf.GradientTape() as tape:
            value = LOSSES[name](y, x @ w)
        w.assign_sub(tape.gradient(value, w))
        return value

    assert not warnings(step, [np.zeros([8, 2], "float32")] * 2)


@pytest.mark.parametrize("options", [{"output_sequence_length": 3}, {"output_mode": "multi_hot"}, {}], ids=str)
def test_layers_for_texts_are_not_warned_of(options):
    layer, weights = keras.layers.TextVectorization(vocabulary=["a", "b"], **options), tf.Variable(tf.ones([9, 1]))

    def step(texts, y):
        with tf.GradientTape() as tape:
            numbers = layer(texts)
            found = tf.matmul(numbers, weights[:4]) if numbers.dtype.is_floating else tf.gather(weights, numbers)
            value = tf.reduce_mean(tf.square(tf.reduce_sum(found, [*range(1, len(found.shape))]) - y))
        weights.assign_sub(tf.convert_to_tensor(tape.gradient(value, weights)))
        return value

    found = warnings(step, [np.array([b"a b"] * 8), np.zeros([8], "float32")])
    assert bool(found) == (not options), "texts are padded to the longest one of a replica's"
