"""Everything that models and layers trace is said in the home of operators' meaning."""

import re
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import constant_value, node_of
from autodist.graph.operators import Access, Kind, expression_of, operator, signature_of

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import models

QUICK = ("vgg", "ncf_sparse", "lstm", "while_loop", "branches", "keras_ops", "convolutions", "normalizations", "text")
HUB = tuple(name for name in models.names() if name.startswith("hub"))
DEEPER = ("bert_6", "bert_12", "bert_large")
"""The layers of `bert_3`, and more of them."""
WITHOUT_INDICES = (Kind.VARIABLE, Kind.SOURCE, Kind.SHAPE, Kind.FLOW, Kind.LIST, Kind.RANDOM)
"""Kinds that an index expression does not fit: they are followed in other ways, or run whole."""

RUN_WHOLE = {
    "Assert", "BatchToSpaceND", "ComputeAccidentalHits", "Conv3DBackpropFilterV2", "CudnnRNN", "DynamicStitch",
    "InvertPermutation", "LookupTableFindV2", "MirrorPadGrad", "OptionalFromValue", "OptionalGetValue",
    "OptionalHasValue", "Range", "ResizeBilinearGrad", "ResizeNearestNeighborGrad", "SpaceToBatchND", "SparseToDense",
    "TensorScatterAdd", "TensorScatterUpdate", "Where", "ScaleAndTranslateGrad", "SearchSorted",
    "DenseBincount", "SparseReshape", "Unique", "UpperBound", "CTCLoss",
}  # fmt: skip
"""Traced op types that have no index expression: of results whose sizes depend on data, or of places that data name."""


def ops_of(function, *arguments):
    """The op types that are traced. Each node of the step itself is described, with the dims that are left open."""
    graph = function.get_concrete_function(*arguments).graph.as_graph_def(add_shapes=True)
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        fits_its_shapes(node, nodes)
    every = [graph.node, *(called.node_def for called in graph.library.function)]
    return {node.op for some in every for node in some}


def fits_its_shapes(node, nodes):
    signature = signature_of(node, nodes, lambda tensor: constant_value(nodes[node_of(tensor)]))
    expression = expression_of(signature)
    if expression is not None:
        tensors = [*zip(expression.outputs, signature.outputs, strict=True)]
        tensors += zip(expression.inputs, signature.inputs, strict=True)
        ranks = [(len(a.dims), len(s)) for a, s in tensors if isinstance(a, Access) and s is not None]
        assert all(said == traced for said, traced in ranks), node.name


def check(ops):
    known = {op: operator(op) for op in ops}
    assert [op for op, found in known.items() if found is None] == []
    whole = {op for op, o in known.items() if o.describe is None and o.kind not in WITHOUT_INDICES}
    assert whole - RUN_WHOLE == set()


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in models.names() if n not in (*HUB, *DEEPER)],
)
def test_a_model_traces_nothing_unknown(name):
    training = models.get(name).build("tiny")
    specs = [tf.TensorSpec((None, *array.shape[1:]), array.dtype) for array in training.batch(0)]
    check(ops_of(tf.function(training.step), *specs))


LAYERS = {
    (8, 8, 3): """
    Conv2D(4, 3); Conv2D(4, 3, padding="same", strides=2); Conv2D(4, 3, dilation_rate=2); Conv2DTranspose(4, 3)
    DepthwiseConv2D(3); SeparableConv2D(4, 3); MaxPooling2D(); AveragePooling2D(2, padding="same")
    GlobalAveragePooling2D(); GlobalMaxPooling2D(); UpSampling2D(); UpSampling2D(interpolation="bilinear")
    ZeroPadding2D(); Cropping2D(); BatchNormalization(); GroupNormalization(3); SpatialDropout2D(0.3); Flatten()
    Permute((3, 1, 2)); Resizing(6, 6); Rescaling(0.5); RandomFlip(); CenterCrop(4, 4); LayerNormalization()
    UnitNormalization(); RandomContrast(0.2); RandomBrightness(0.2); RandomTranslation(0.1, 0.1); RandomZoom(0.1)
    RandomRotation(0.1); GaussianNoise(0.1); GaussianDropout(0.1); AlphaDropout(0.1)
    SpectralNormalization(Conv2D(2, 3)); ConvLSTM1D(2, 2)
    """,
    (6, 4): """
    LSTM(4); GRU(4, return_sequences=True); SimpleRNN(4); Bidirectional(LSTM(3)); Conv1D(4, 3); Conv1DTranspose(4, 3)
    SeparableConv1D(4, 3); DepthwiseConv1D(3); MaxPooling1D(); AveragePooling1D(2); GlobalAveragePooling1D()
    TimeDistributed(Dense(3)); ZeroPadding1D(); Cropping1D(); UpSampling1D(); Masking(); SpatialDropout1D(0.2)
    EinsumDense("abc,cd->abd", (None, 3)); Softmax(); LSTM(4, unroll=True); Dense(3); RMSNormalization()
    """,
    (12,): """
    Dense(4, activation="relu"); Dropout(0.5); Activation("gelu"); ReLU(); LeakyReLU(); PReLU(); ELU(); Reshape((3, 4))
    RepeatVector(3); ActivityRegularization(0.1); Discretization([0.3, 0.6]); Identity(); Activation("selu")
    Activation("softplus"); Activation("mish"); Activation("log_softmax")
    """,
    (6, 6, 6, 2): """
    Conv3D(2, 2); Conv3DTranspose(2, 2); MaxPooling3D(); AveragePooling3D(2); GlobalMaxPooling3D(); UpSampling3D()
    ZeroPadding3D(); Cropping3D(); SpatialDropout3D(0.2); ConvLSTM2D(2, 2)
    """,
}
"""By the shape of an example, layers of Keras."""

CASES = [(shape, text) for shape, texts in LAYERS.items() for text in re.split(r";|\n", texts) if text.strip()]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "text"), [pytest.param(*case, id=case[1].strip()) for case in CASES])
def test_a_layer_traces_nothing_unknown(shape, text):
    layer = eval(text.strip(), dict(vars(keras.layers)))
    trained = tf.Variable(np.ones(shape, np.float32))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.cast(layer(x * trained, training=True), tf.float32))
        variables = [trained, *(v.value for v in layer.trainable_variables)]
        return tape.gradient(loss, variables, unconnected_gradients="zero")

    check(ops_of(step, tf.TensorSpec((None, *shape), tf.float32)))


@pytest.mark.slow
def test_losses_and_metrics_trace_nothing_unknown():
    names = [
        n
        for n in dir(keras.losses)
        if n[0].isupper() and n not in ("Loss", "CTC", "CategoricalGeneralizedCrossEntropy")
    ]
    losses = [getattr(keras.losses, name)() for name in names]

    @tf.function
    def step(y, x):
        found = [loss(y, x) for loss in losses if "Sparse" not in type(loss).__name__]
        return found, tf.gradients(found, x)

    check(ops_of(step, tf.TensorSpec((None, 3)), tf.TensorSpec((None, 3))))
