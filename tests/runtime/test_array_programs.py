"""Functions of arrays: whichever dims of which arguments are cut, what comes out is what one device finds."""

import itertools
import logging
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import UsageError
from autodist.graph import VariableNames, as_array_program, capture
from autodist.graph.layouts import TiledVariables, exchanged_in, plan_batch
from autodist.resource_spec import ResourceSpec
from autodist.runtime.data._batch import LocalArray

from . import grouped_arrays

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def product(a, b):
    return a @ b, tf.reduce_sum(a) - tf.reduce_max(b)


def statistics(a):
    centred = a - tf.reduce_mean(a, 0)
    return tf.matmul(centred, centred, transpose_a=True) / len(a), tf.math.reduce_std(a, 1), tf.reduce_min(a, 0)


def attention(a, b):
    weights = tf.nn.softmax(a @ tf.transpose(b) / 3.0)
    return weights @ b, tf.argmax(weights, 1)


def distances(a, b):
    apart = tf.reduce_sum((a[:, None] - b[None, :, :]) ** 2, -1)
    near = tf.one_hot(tf.argmin(apart, 1), len(b))
    return tf.transpose(near) @ a, tf.sort(apart, 1)[:, :2]


def counted(a):
    total = tf.zeros([a.shape[1]])
    for k in tf.range(3):
        total = total / 2 + tf.reduce_sum(a * tf.cast(k + 1, tf.float32), 0)
        if k == 1:
            total = -total
    return total


def nested(a):
    for _ in tf.range(2):
        for _ in tf.range(2):
            a = a @ tf.linalg.normalize(tf.transpose(a) @ a)[0]
    return a


def until(a):
    """Data say how often it turns."""
    while tf.reduce_max(tf.abs(a)) > 0.1:
        a = a / 2
    return a, tf.reduce_sum(a, 0)


def conditional(a, b):
    found = tf.cond(tf.reduce_sum(a) > 0, lambda: a + 1.0, lambda: a * 2.0)
    return found @ b


def sequences(a):
    return tf.cumsum(a, 0), tf.reverse(a, [1]), tf.concat([a, a[:2]], 0), a[1:, ::2], tf.map_fn(tf.reduce_sum, a)


def solved(a, b):
    system = tf.matmul(a, a, transpose_a=True) + tf.eye(a.shape[1])
    return tf.linalg.solve(system, tf.matmul(a, b, transpose_a=True))


def strips(a):
    padded = tf.pad(a, [[1, 1], [0, 0]])
    return padded[:-2] + padded[2:] - 2 * a, tf.reshape(a, [-1]), tf.reshape(a, [3, -1])


def gradient(a, b):
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        loss = tf.reduce_mean(tf.tanh(a @ tf.transpose(b)) ** 2)
    return [loss, *tape.gradient(loss, [a, b])]


def heat(a):
    """Each place becomes the mean of its neighbours; the border stays at zero."""
    for _ in tf.range(2):
        a = tf.pad((a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4, [[1, 1], [1, 1]])
    return a


def around(a):
    """As on a torus, with what is far apart as well."""
    near = sum(tf.roll(a, [down, right], [0, 1]) for down in (-1, 0, 1) for right in (-1, 0, 1))
    return tf.tanh(near) + tf.roll(a, 5, 0) * tf.roll(a, [1, -7], [1, 1]), tf.reduce_sum(near, 0)


def pieces(a):
    joined = tf.concat([a[:2], a[2:4]], 1), tf.concat([a, 2 * a], 0)
    return *joined, tf.concat([a[3:], a[:3]], 0), tf.reverse(a, [0]), a[:-1:2] - a[1::2]


def convolved(a, b):
    """Windows that move over an image, with padding and without, and the way back."""
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        filters = tf.reshape(b[:3, :3], [3, 3, 1, 1])
        image = tf.nn.conv2d(a[None, :, :, None], filters, 1, "SAME")
        image = tf.nn.max_pool2d(tf.tanh(image), 2, 2, "VALID")
        image = tf.nn.depthwise_conv2d(image, tf.tile(filters, [1, 1, 1, 2]), [1] * 4, [[0, 0], [2, 1], [1, 1], [0, 0]])
        loss = tf.reduce_mean(image**2) + tf.reduce_mean(tf.nn.avg_pool2d(image, 2, 1, "VALID"))
    return [image, loss, *tape.gradient(loss, [a, b])]


def strung(a, b):
    """Pixels of several images, strung together for a loss and taken apart again, by rows and by columns."""
    images = a[:, :, None, None] * b[:3, :4]
    with tf.GradientTape() as tape:
        tape.watch(images)
        pixels = tf.reshape(images, [-1, 3, 4])
        scores = tf.nn.log_softmax(tf.reshape(tf.transpose(pixels, [0, 2, 1]), [-1, 3]))
        logits = scores * tf.reduce_mean(scores, 0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.argmax(scores, 1), logits)
        apart = tf.reshape(losses, [a.shape[0], a.shape[1], 4])
        loss = tf.reduce_sum(apart**2) + tf.reduce_max(scores) + tf.reduce_sum(tf.reduce_mean(apart, 1))
    return loss, apart, tape.gradient(loss, images), tf.cumsum(losses), scores[7::2]


PROGRAMS = {
    product: [normal(12, 6), normal(6, 18)],
    statistics: [normal(12, 6)],
    attention: [normal(12, 6), normal(18, 6)],
    distances: [normal(12, 6), normal(6, 6)],
    counted: [normal(12, 6)],
    nested: [normal(12, 6)],
    until: [normal(12, 6)],
    conditional: [normal(12, 6), normal(6, 6)],
    sequences: [normal(12, 6)],
    solved: [normal(12, 6), normal(12, 6)],
    strips: [normal(12, 6)],
    gradient: [normal(12, 6), normal(18, 6)],
    heat: [normal(12, 6)],
    around: [normal(12, 6)],
    pieces: [normal(12, 6)],
    convolved: [normal(12, 18), normal(6, 6)],
    strung: [normal(12, 18), normal(6, 6)],
}


def run(program, arrays, replicas, dims=True):
    with autodist.scope(ResourceSpec.local(cpus=replicas)):
        step = autodist.function(program, arrays=dims)
        return [step(*arrays), step(*arrays)][1]


def assert_same(found, expected):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("program", "dims", "replicas"),
    [
        pytest.param(program, dims, replicas, marks=() if replicas == 2 and k % 3 == 0 else pytest.mark.slow)
        for program, arrays in PROGRAMS.items()
        for replicas in (2, 3)
        for k, dims in enumerate(itertools.product(*([0, 1, None],) * len(arrays)))
        if dims != (None,) * len(arrays)
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_any_dims_may_be_cut(program, dims, replicas):
    arrays = PROGRAMS[program]
    assert_same(run(program, arrays, replicas, dims), tf.function(program)(*map(tf.constant, arrays)))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_dims_are_found(program):
    arrays = PROGRAMS[program]
    assert_same(run(program, arrays, 2), tf.function(program)(*map(tf.constant, arrays)))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_parts_need_not_come_out_even(program, dim):
    uneven = {12: 13, 6: 9, 18: 17}
    arrays = [normal(*map(uneven.get, array.shape)) for array in PROGRAMS[program]]
    assert_same(run(program, arrays, 2, (dim,) * len(arrays)), tf.function(program)(*map(tf.constant, arrays)))


@pytest.mark.parametrize("dims", [(0,), (1,), True], ids=str)
@pytest.mark.parametrize("program", [heat, around, convolved], ids=lambda program: program.__name__)
def test_replicas_are_given_what_lies_around_their_parts(program, dims, caplog):
    arrays = [normal(601, 402), *PROGRAMS[program][1:]]
    given = dims if dims is True else (*dims, *(None,) * (len(arrays) - 1))
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(program, arrays, 3, given)
    assert_same(found, tf.function(program)(*map(tf.constant, arrays)))
    assert "replicas have parts of `a`" in caplog.text


def forces(a):
    """What many bodies do to each other: little is sent for much that is computed."""
    apart = a[:, None] - a[None]
    return -tf.reduce_sum(apart / (tf.reduce_sum(apart**2, -1, keepdims=True) + 0.1) ** 1.5, 1)


@pytest.mark.parametrize("program", [forces, lambda a: a @ a], ids=["forces", "product"])
def test_an_array_that_meets_itself_is_shared_if_that_saves_more_than_it_sends(program, caplog):
    """Only bytes were weighed, by which it is best to gather the array and to compute all of it everywhere."""
    sizes = (400, 3) if program is forces else (1500, 1500)
    arrays = [normal(*sizes)]
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(program, arrays, 2)
    expected = tf.function(program)(*arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(tf.reduce_max(tf.abs(expected))))
    assert ("replicas have parts of `a`" in caplog.text) == (program is forces), caplog.text


def segmenter():
    """A net that shrinks an image and makes it large again, in both ways in which Keras does."""
    layers = keras.layers
    images = keras.Input((24, 20, 3))

    def block(x, channels):
        return layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(x)))

    fine = block(images, 4)
    middle = block(layers.MaxPool2D()(fine), 6)
    coarse = block(layers.AveragePooling2D(2)(middle), 8)
    up = block(layers.Concatenate()([layers.Conv2DTranspose(6, 3, 2, padding="same")(coarse), middle]), 6)
    up = block(layers.Concatenate()([layers.UpSampling2D()(up), fine]), 4)
    return keras.Model(images, layers.Conv2D(2, 1)(up))


@pytest.mark.parametrize("dims", [(1, 1), (2, 2), (1, None)], ids=str)
def test_a_net_trains_on_parts_of_one_image(dims):
    image = normal(1, 24, 20, 3)
    labels = (image[..., 0] > 0).astype(np.int32)

    def trained(make):
        keras.utils.set_random_seed(0)
        model, optimizer = segmenter(), keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @make
        def step(images, labels):
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images, training=True))
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
            return loss

        before = [variable.numpy() for variable in model.variables]
        losses = [float(step(image, labels)) for _ in range(3)]
        after = [variable.numpy() for variable in model.variables]
        assert all(np.abs(one - other).max() > 0 for one, other in zip(before, after, strict=True))
        return losses, after

    with autodist.scope(ResourceSpec.local(cpus=2)):
        found = trained(autodist.function(arrays=dims))
    expected = trained(tf.function)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_variables_are_kept_whole_and_trained_alike():
    def trained(make):
        weights, count = tf.Variable(np.zeros(6, np.float32)), tf.Variable(0)

        @make
        def step(features, labels, *, rate):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.linalg.matvec(features, weights) - labels) ** 2)
            weights.assign_sub(rate * tape.gradient(loss, weights))
            count.assign_add(1)
            return {"loss": loss, "none": None}

        features = PROGRAMS[counted][0]
        losses = [step(features, features[:, 0], rate=0.1)["loss"] for _ in range(3)]
        weights.assign(weights / 2)
        losses.append(step(features, features[:, 0], rate=0.1)["loss"])
        return [*losses, weights.numpy(), count.numpy()]

    with autodist.scope(ResourceSpec.local(cpus=2)):
        found = trained(autodist.function(arrays=True))
    expected = trained(tf.function)
    assert np.abs(expected[-2]).max() > 0.01
    assert found[-1] == 4
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("program", "arrays", "said"),
    [
        (lambda a: tf.reduce_sum(a), [np.float32(3)], "a large argument needs a dim of at least 2"),
        (lambda a: tf.reduce_sum(a), [normal(1, 1)], r"given: `a` of shape \(1, 1\)"),
        (lambda a: tf.linalg.svd(a)[0], [normal(8, 4)], "an operation that can be cut along it"),
        (lambda: tf.zeros(3), [], "it takes no arrays"),
    ],
)
def test_what_can_not_be_cut_runs_whole_and_says_so(program, arrays, said, caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        assert_same(run(program, arrays, 2), tf.function(program)(*arrays))
    assert "runs whole on every worker" in caplog.text
    assert re.search(said, caplog.text), caplog.text


@pytest.mark.parametrize(
    ("dims", "arrays", "said"),
    [
        ((2,), [normal(4, 6)], r"2 for `a` of shape \(4, 6\), allowed: 0 or 1 or None, for 2 replicas"),
        ((1,), [normal(4, 1)], r"1 for `a` of shape \(4, 1\), allowed: 0 or None"),
        ((0, 0), [normal(4, 3)], "2 entries, allowed: 1, one for each array"),
        (True, [normal(4, 3).view(LocalArray)], "is given this worker's part of them"),
    ],
)
def test_mistakes_are_said(dims, arrays, said):
    with pytest.raises(UsageError, match=said):
        run(counted, arrays, 2, dims)


def test_it_needs_a_scope():
    with pytest.raises(UsageError, match="`product` was called outside of a scope"):
        autodist.function(product, arrays=True)(normal(4, 4), normal(4, 4))


def test_within_another_function_it_is_a_part_of_that():
    step = autodist.function(product, arrays=True)
    arrays = PROGRAMS[product]
    with autodist.scope(ResourceSpec.local(cpus=2)):
        found = tf.function(lambda a, b: step(a, b)[0] * 2)(*map(tf.constant, arrays))
    np.testing.assert_allclose(found, 2 * arrays[0] @ arrays[1], rtol=1e-4, atol=1e-5)


def test_pixels_of_several_images_are_strung_together_in_parts():
    """A replica's part of each image is a part of each stretch of their pixels, of which nothing is gathered."""

    def loss(images, labels):
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, images * 2.0, from_logits=True) ** 2)

    specs = [tf.TensorSpec([3, 8, 5, 7]), tf.TensorSpec([3, 8, 5], tf.int32)]
    captured = capture(loss, specs, VariableNames(), split=[False] * 2, fixed=True)
    graph = as_array_program(captured)[0].graph.with_tiles([(1,), (1,)])
    found = exchanged_in(graph, plan_batch(graph, TiledVariables.of_arguments(graph, 4)))
    assert [(one.how, one.size_bytes) for one in found] == [("added up", 4)]


@pytest.mark.slow
def test_a_function_of_arrays_reads_what_groups_of_replicas_have(tmp_path):
    command = [sys.executable, "-m", "autodist", "run", grouped_arrays.__file__, "--workers", "4", "--run-dir"]
    command += [str(tmp_path), "--strategy", "Tiled(dims=('*/kernel=1',), groups=2)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as on one device") == 4


def test_what_is_compared_is_gathered_from_all_replicas():
    specs = [tf.TensorSpec([12, 100])]
    captured = capture(lambda a: tf.reduce_max(a, 0), specs, VariableNames(), split=[False], fixed=True)
    graph = as_array_program(captured)[0].graph.with_tiles([(0,)])
    [found] = exchanged_in(graph, plan_batch(graph, TiledVariables.of_arguments(graph, 4)))
    assert (found.how, found.size_bytes, found.sent_bytes(4)) == ("gathered", 4 * 400, 3 * 400)
