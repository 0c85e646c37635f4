"""Models of KerasHub with random weights: nothing is downloaded. They need `pip install "autodist-tf[hub]"`."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._base import Training, Workload, classification, images, make_step, sizes

__all__ = ["WORKLOADS"]


def _models():
    try:
        import keras_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this is one of KerasHub's models: pip install 'autodist-tf[hub]'", name="keras_hub"
        ) from error
    return keras_hub.models


def bert(num_layers, width, heads, vocabulary, length, num_classes, batch_size):
    """A classifier of pairs of texts of unequal length, on BERT's pooled output."""
    backbone = _models().BertBackbone(
        vocabulary, num_layers, heads, width, 4 * width, dropout=0.0, max_sequence_length=length
    )
    score = keras.layers.Dense(num_classes)
    score.build((None, width))

    def loss_of(ids, segments, mask, labels):
        inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
        logits = score(backbone(inputs, training=True)["pooled_output"])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    batch = partial(_pairs, vocabulary, length, num_classes, batch_size)
    return _training(loss_of, [*backbone.trainable_variables, *score.trainable_variables], batch)


def gpt2(num_layers, width, heads, vocabulary, length, batch_size):
    """A causal language model; predictions use the table of the inputs, and padding does not count."""
    backbone = _models().GPT2Backbone(
        vocabulary, num_layers, heads, width, 4 * width, dropout=0.0, max_sequence_length=length
    )

    def loss_of(ids, mask):
        hidden = backbone({"token_ids": ids, "padding_mask": mask}, training=True)[:, :-1]
        logits = backbone.token_embedding(hidden, reverse=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], logits)
        counts = tf.cast(mask[:, 1:], losses.dtype)
        return tf.reduce_sum(losses * counts) / tf.reduce_sum(counts)

    return _training(loss_of, backbone.trainable_variables, partial(_texts, vocabulary, length, batch_size))


def vit(num_layers, width, heads, patch_size, image_size, num_classes, batch_size):
    """A vision transformer that classifies by its class token."""
    shape = (image_size, image_size, 3)
    backbone = _models().ViTBackbone(
        shape, patch_size, num_layers, heads, width, 4 * width, use_mha_bias=False
    )  # without biases: see _training
    model = keras.Model(backbone.input, keras.layers.Dense(num_classes)(backbone.output[:, 0]))
    return classification(model, keras.optimizers.SGD(0.01), images(image_size), num_classes, batch_size)


def resnet(filters, blocks, image_size, num_classes, batch_size):
    """A ResNet of basic blocks, with batch normalization."""
    strides = [1] + [2] * (len(filters) - 1)
    backbone = _models().ResNetBackbone(
        [filters[0]], [3], list(filters), list(blocks), strides, "basic_block", image_shape=(image_size, image_size, 3)
    )
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    model = keras.Model(backbone.input, keras.layers.Dense(num_classes)(pooled))
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return classification(model, optimizer, images(image_size), num_classes, batch_size)


def _training(loss_of, variables, batch):
    # The bias of the keys cancels out in the softmax: its gradient is round-off.
    variables = [variable for variable in variables if not variable.path.endswith("key/bias")]
    return Training(make_step(loss_of, variables, keras.optimizers.SGD(0.05)), batch, variables)


def _texts(vocabulary, length, batch_size, number):
    random = np.random.default_rng(number)
    ids = random.integers(1, vocabulary, size=(batch_size, length))
    mask = np.arange(length) < random.integers(2, length + 1, size=(batch_size, 1))
    return (ids * mask).astype(np.int32), mask.astype(np.int32)


def _pairs(vocabulary, length, num_classes, batch_size, number):
    ids, mask = _texts(vocabulary, length, batch_size, number)
    segments = (np.arange(length) >= mask.sum(1, keepdims=True) // 2) * mask
    return ids, segments.astype(np.int32), mask, (ids.sum(1) % num_classes).astype(np.int32)


WORKLOADS = (
    Workload(
        "hub_bert",
        "KerasHub's BERT, a classifier of pairs of texts",
        sizes("num_layers width heads vocabulary length num_classes batch_size",
              tiny=(2, 8, 2, 40, 9, 3, 12), small=(4, 128, 4, 4000, 32, 3, 16), full=(12, 768, 12, 30522, 128, 3, 32)),
        bert,
    ),
    Workload(
        "hub_gpt2",
        "KerasHub's GPT-2, a language model",
        sizes("num_layers width heads vocabulary length batch_size",
              tiny=(2, 8, 2, 40, 9, 12), small=(4, 128, 4, 4000, 32, 16), full=(12, 768, 12, 50257, 256, 8)),
        gpt2,
    ),
    Workload(
        "hub_vit",
        "KerasHub's ViT",
        sizes("num_layers width heads patch_size image_size num_classes batch_size",
              tiny=(2, 8, 2, 4, 8, 5, 12), small=(4, 128, 4, 4, 32, 100, 16), full=(12, 768, 12, 16, 224, 1000, 16)),
        vit,
    ),
    Workload(
        "hub_resnet",
        "KerasHub's ResNet, whose examples are mixed by batch normalization",
        sizes("filters blocks image_size num_classes batch_size",
              tiny=((64, 8), (1, 1), 8, 5, 12), small=((64, 64, 128), (2, 2, 2), 32, 100, 16),
              full=((64, 128, 256, 512), (3, 4, 6, 3), 224, 1000, 32)),
        resnet,
    ),
)  # fmt: skip
