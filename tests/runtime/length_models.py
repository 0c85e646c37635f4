"""Small models of Keras for batches whose lengths differ, and their padded batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

COUNT, BATCH, WORDS, WIDTH = 43, 8, 30, 5
LONGEST, OTHERS = (7, 4, 8, 2, 5, 11), (5, 6, 8, 3, 9, 4)
"""By batch; some are those of other dims. The last batch has fewer rows."""
RANDOM = np.random.default_rng(0)


def lengths(longest: tuple[int, ...], least: int = 2) -> list[int]:
    return [
        longest[k // BATCH] if k % BATCH == 0 else int(RANDOM.integers(least, longest[k // BATCH] + 1))
        for k in range(COUNT)
    ]


LENGTHS = lengths(LONGEST)
IDS = [RANDOM.integers(1, WORDS, k) for k in LENGTHS]
VECTORS = [RANDOM.normal(size=(k, WIDTH)) for k in LENGTHS]
OTHER_IDS = [RANDOM.integers(1, WORDS, k) for k in lengths(OTHERS)]
LABELS = RANDOM.integers(0, 2, COUNT)
NUMBERS = RANDOM.normal(size=COUNT)
TAGS = [words % 4 for words in IDS]
OTHER_TAGS = [words % 4 for words in OTHER_IDS]
IMAGES = [
    RANDOM.normal(size=(height + 4, width + 4, 3)) for height, width in zip(LENGTHS, lengths(OTHERS), strict=True)
]
CTC_LABELS = [(np.arange(3) + k) % 4 + 1 for k in range(COUNT)]
FILMS = [RANDOM.normal(size=(k, 4, 4, 1)) for k in LENGTHS]
WEIGHTS = RANDOM.uniform(size=COUNT)

Model = tuple[keras.Model, Any, Any]
"""A model, its batches and its loss."""
MODELS: dict[str, Callable[[], Model]] = {}
CROSS = "binary_crossentropy"
SPARSE = keras.losses.SparseCategoricalCrossentropy


def model(build: Callable[[], Model]) -> Callable[[], Model]:
    MODELS[build.__name__] = build
    return build


def padded(*columns: Any, size: int = BATCH) -> Any:
    """Batches of columns, of which tuples are those of `x`."""

    def spec(column: Any) -> Any:
        if isinstance(column, tuple):
            return tuple(map(spec, column))
        first = np.asarray(column[0])
        kept = first.shape[-1:] if first.ndim > 1 else ()
        return tf.TensorSpec([None] * (first.ndim - len(kept)) + list(kept), first.dtype)

    def rows() -> Any:
        for k in range(COUNT):
            yield tuple(tuple(part[k] for part in c) if isinstance(c, tuple) else c[k] for c in columns)

    data = tf.data.Dataset.from_generator(rows, output_signature=tuple(map(spec, columns)))
    return data.padded_batch(size).apply(tf.data.experimental.assert_cardinality(-(-COUNT // size)))


def words() -> Any:
    return keras.Input([None], dtype="int64")


def vectors() -> Any:
    return keras.Input([None, WIDTH])


def embedded(given: Any, *, mask: bool = True) -> Any:
    return layers.Embedding(WORDS, 8, mask_zero=mask)(given)


def classify(found: Any) -> Any:
    return layers.Dense(1, activation="sigmoid")(found)


def of_words(found: Any, given: Any) -> Model:
    return keras.Model(given, classify(found)), padded(IDS, LABELS), CROSS


def of_vectors(found: Any, given: Any) -> Model:
    return keras.Model(given, classify(found)), padded(VECTORS, LABELS), CROSS


def tagging(found: Any, given: Any, **options: Any) -> Model:
    return keras.Model(given, layers.Dense(4)(found)), padded(IDS, TAGS), SPARSE(from_logits=True, **options)


def mean(found: Any) -> Any:
    return layers.GlobalAveragePooling1D()(found)


@model
def lstm():
    given = words()
    return of_words(layers.Bidirectional(layers.LSTM(4))(embedded(given)), given)


@model
def stacked_rnn():
    given = words()
    found = layers.RNN([layers.GRUCell(4), layers.LSTMCell(3)], return_sequences=True)(embedded(given))
    return tagging(found, given)


@model
def gru_tags():
    given = words()
    return tagging(layers.GRU(5, return_sequences=True)(embedded(given)), given)


@model
def backwards():
    given = vectors()
    found = layers.LSTM(4, return_sequences=True)(given)
    return of_vectors(layers.LSTM(3, go_backwards=True)(found), given)


@model
def with_dropout_in_time():
    given = vectors()
    return of_vectors(layers.SimpleRNN(4, dropout=0.2, recurrent_dropout=0.2, seed=3)(given), given)


@model
def initial_state():
    given = words()
    found = embedded(given)
    state = layers.Dense(4, activation="tanh")(mean(found))
    return tagging(layers.GRU(4, return_sequences=True)(found, initial_state=state), given)


@model
def convolved():
    given = vectors()
    found = layers.Conv1D(6, 2, padding="same", activation="relu")(given)
    return of_vectors(layers.GlobalMaxPooling1D()(found), given)


@model
def up_and_down():
    given = vectors()
    found = layers.Conv1DTranspose(6, 3, strides=2, padding="same", activation="relu")(given)
    return of_vectors(mean(layers.Conv1D(4, 3, strides=2, padding="same")(found)), given)


@model
def padded_and_cropped():
    given = vectors()
    found = layers.Conv1D(4, 3, activation="tanh")(layers.ZeroPadding1D(2)(given))
    return of_vectors(mean(layers.Cropping1D((1, 0))(found)), given)


@model
def pooled():
    given = vectors()
    found = layers.MaxPooling1D(2, padding="same")(layers.SeparableConv1D(6, 3, padding="same")(given))
    return of_vectors(mean(layers.UpSampling1D(2)(found)), given)


@model
def attention():
    given = words()
    e = embedded(given)
    h = layers.LayerNormalization()(e + layers.MultiHeadAttention(2, 4)(e, e))
    h = layers.LayerNormalization()(h + layers.Dense(8)(layers.Dense(16, activation="gelu")(h)))
    return of_words(mean(h), given)


@model
def causal():
    given = words()
    e = embedded(given)
    found = layers.LayerNormalization()(e + layers.MultiHeadAttention(2, 4)(e, e, use_causal_mask=True))
    return tagging(found, given, ignore_class=0)


@model
def dropped_attention():
    given = words()
    e = embedded(given)
    return of_words(mean(layers.MultiHeadAttention(2, 4, dropout=0.3, seed=2)(e, e)), given)


@model
def grouped_attention():
    given = words()
    e = embedded(given)
    return of_words(mean(layers.GroupQueryAttention(4, 4, 2)(e, e)), given)


class Positions(layers.Layer):
    def __init__(self):
        super().__init__()
        self.places, self.words = layers.Embedding(20, 8), layers.Embedding(WORDS, 8)

    def call(self, given):
        return self.words(given) + self.places(ops.arange(ops.shape(given)[1]))


@model
def positions():
    given = words()
    return of_words(mean(layers.Dense(8, activation="relu")(Positions()(given))), given)


class Tied(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(WORDS, 8)

    def call(self, given):
        return ops.matmul(ops.tanh(self.words(given)), ops.transpose(self.words.embeddings))


@model
def tied():
    given = words()
    return keras.Model(given, Tied()(given)), padded(IDS, TAGS), SPARSE(from_logits=True)


class Flat(layers.Layer):
    def build(self, _):
        self.kernel = self.add_weight(shape=(WIDTH, 4))

    def call(self, given):
        flat = ops.matmul(ops.reshape(given, (-1, WIDTH)), self.kernel)
        return ops.reshape(flat, (ops.shape(given)[0], -1, 4))


@model
def flattened():
    given = vectors()
    return of_vectors(mean(layers.Activation("tanh")(Flat()(given))), given)


@model
def dropped():
    given = vectors()
    found = layers.Dropout(0.3, seed=3)(layers.Dense(6, activation="relu")(given))
    return of_vectors(mean(layers.SpatialDropout1D(0.3, seed=5)(found)), given)


@model
def noisy():
    given = vectors()
    found = layers.GaussianNoise(0.3, seed=3)(layers.Dense(6, activation="tanh")(given))
    return of_vectors(mean(layers.GaussianDropout(0.2, seed=4)(found)), given)


@model
def scored():
    given = vectors()
    scores = layers.Softmax()(layers.Dot(axes=(2, 2))([layers.Dense(WIDTH)(given), given]))
    return of_vectors(layers.GlobalMaxPooling1D()(layers.Dot(axes=(2, 1))([scores, given])), given)


@model
def normalized_by_batch():
    given = vectors()
    return of_vectors(mean(layers.BatchNormalization(synchronized=True)(layers.Dense(6)(given))), given)


@model
def normalized_by_groups():
    given = vectors()
    return of_vectors(mean(layers.GroupNormalization(2)(layers.Dense(6)(given))), given)


@model
def one_hot():
    given = words()
    found = layers.Lambda(lambda ids: ops.one_hot(ids, WORDS, dtype="float64"))(given)
    return of_words(layers.GlobalMaxPooling1D()(layers.Conv1D(4, 1)(found)), given)


@model
def highest():
    given = vectors()
    found = layers.Lambda(lambda x: ops.top_k(ops.transpose(x, (0, 2, 1)), 2)[0])(layers.Dense(4)(given))
    return of_vectors(layers.Flatten()(found), given)


@model
def weighted_tokens():
    given = words()
    built, data, loss = tagging(layers.GRU(5, return_sequences=True)(embedded(given)), given)
    return built, data.map(lambda x, y: (x, y, tf.cast(x > 0, tf.float64))), loss


@model
def weighted_examples():
    given = vectors()
    found = classify(mean(layers.Dense(4, activation="tanh")(given)))
    return keras.Model(given, found), padded(VECTORS, LABELS, WEIGHTS), CROSS


@model
def penalized():
    given = vectors()
    found = layers.ActivityRegularization(1e-2)(layers.Dense(4, activation="tanh", kernel_regularizer="l2")(given))
    return of_vectors(mean(found), given)


@model
def ctc():
    given = vectors()
    found = layers.Dense(6)(layers.Conv1D(6, 3, padding="same", activation="relu")(given))
    long = [np.repeat(one, 4, 0) for one in VECTORS]
    return keras.Model(given, found), padded(long, CTC_LABELS), keras.losses.CTC()


class OverTokens(keras.losses.Loss):
    def call(self, y, found):
        loss = keras.losses.sparse_categorical_crossentropy(y, found, from_logits=True)
        mask = ops.cast(y > 0, loss.dtype)
        return ops.sum(loss * mask) / ops.sum(mask)


@model
def over_tokens():
    given = words()
    built, data, _ = tagging(layers.SimpleRNN(6, return_sequences=True)(embedded(given, mask=False)), given)
    return built, data, OverTokens(reduction=None)


@model
def translated():
    one, other = words(), words()
    _, state = layers.GRU(6, return_state=True)(embedded(one))
    found = layers.GRU(6, return_sequences=True)(embedded(other), initial_state=state)
    built = keras.Model([one, other], layers.Dense(4)(found))
    return built, padded((IDS, OTHER_IDS), OTHER_TAGS), SPARSE(from_logits=True)


@model
def translated_by_attention():
    one, other = words(), words()
    e, d = embedded(one), embedded(other)
    d = layers.LayerNormalization()(d + layers.MultiHeadAttention(2, 4)(d, d, use_causal_mask=True))
    found = layers.LayerNormalization()(d + layers.MultiHeadAttention(2, 4)(d, e))
    built = keras.Model([one, other], layers.Dense(4)(found))
    return built, padded((IDS, OTHER_IDS), OTHER_TAGS), SPARSE(from_logits=True, ignore_class=0)


def pictures(found: Any, given: Any) -> Model:
    return keras.Model(given, classify(layers.GlobalAveragePooling2D()(found))), of_images(), CROSS


def of_images() -> Any:
    return padded(IMAGES, LABELS)


@model
def images():
    given = keras.Input([None, None, 3])
    found = layers.MaxPooling2D(2)(layers.Conv2D(6, 3, padding="same", activation="relu")(given))
    return pictures(layers.Conv2D(4, 3, activation="relu", padding="same")(found), given)


@model
def normalized_images():
    given = keras.Input([None, None, 3])
    found = layers.BatchNormalization(synchronized=True)(layers.Conv2D(6, 3, strides=2, padding="same")(given))
    return pictures(layers.SpatialDropout2D(0.3, seed=2)(layers.ReLU()(found)), given)


@model
def segmented_images():
    given = keras.Input([None, None, 3])
    found = layers.Conv2D(6, 3, padding="same", activation="relu")(given)
    found = layers.DepthwiseConv2D(3, padding="same")(layers.Concatenate()([found, given]))
    built = keras.Model(given, layers.Conv2D(2, 1)(found))
    rows = [np.abs(image).astype("int64")[:, :, :1] % 2 for image in IMAGES]
    return built, padded(IMAGES, rows), SPARSE(from_logits=True)


@model
def filmed():
    given = keras.Input([None, 4, 4, 1])
    found = layers.GlobalAveragePooling2D()(layers.ConvLSTM2D(3, 2, padding="same")(given))
    spec = tf.TensorSpec([None, 4, 4, 1], tf.float64), tf.TensorSpec([], tf.int64)
    data = tf.data.Dataset.from_generator(lambda: zip(FILMS, LABELS, strict=True), output_signature=spec)
    data = data.padded_batch(BATCH).apply(tf.data.experimental.assert_cardinality(-(-COUNT // BATCH)))
    return keras.Model(given, classify(found)), data, CROSS
