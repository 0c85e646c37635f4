"""Groups of replicas have parts of the batch, and steps in which examples of several groups meet give what one does."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster, certify_in_process

from .test_groups import FOUR, assert_same
from .test_tiled import trained

layers = keras.layers


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def training(loss_of, *, clip=None):
    """A step that differentiates a loss of examples and two variables, and returns it with others' values."""

    def build():
        weight, other = tf.Variable(drawn(4, 6), name="weight"), tf.Variable(drawn(8, 4), name="other")

        def step(x):
            with tf.GradientTape() as tape:
                loss, *more = loss_of(x, weight, other)
            gradients = tape.gradient(loss, (weight, other))
            if clip is not None:
                gradients, norm = tf.clip_by_global_norm(gradients, clip)
                more = [*more, norm]
            for variable, gradient in zip((weight, other), gradients, strict=True):
                if isinstance(gradient, tf.IndexedSlices):
                    variable.scatter_sub(tf.IndexedSlices(0.05 * gradient.values, gradient.indices))
                elif gradient is not None:
                    variable.assign_sub(0.05 * gradient)
            return loss, *more

        return step

    return build


def contrasted(x, weight, other):
    """Every example is compared with all others, and counts are those of all."""
    one, two = (tf.math.l2_normalize(tf.tanh(made), -1) for made in (x @ weight, x @ weight[::-1]))
    alike = 3.0 * tf.matmul(one, two, transpose_b=True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(x)[0]), alike)
    return tf.reduce_sum(losses) / tf.cast(tf.shape(x)[0], tf.float64), alike


def in_both_directions(x, weight, other):
    """Softmaxes over the examples, along both dims."""
    alike = tf.matmul(x @ weight, tf.tanh(x @ weight), transpose_b=True)
    numbers = tf.range(tf.shape(x)[0])
    losses = (tf.nn.sparse_softmax_cross_entropy_with_logits(numbers, one) for one in (alike, tf.transpose(alike)))
    return tf.reduce_mean(tf.add_n(list(losses))), tf.linalg.diag_part(alike)


def of_two_views(x, weight, other):
    """The batch twice, one after the other, as in SimCLR."""
    views = tf.math.l2_normalize(tf.concat([x @ weight, tf.sin(x) @ weight], 0), -1)
    alike = tf.matmul(views, views, transpose_b=True) - 9.0 * tf.eye(tf.shape(views)[0], dtype=tf.float64)
    count = tf.shape(x)[0]
    numbers = tf.concat([tf.range(count, 2 * count), tf.range(count)], 0)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(numbers, alike)), views


def of_pairs(x, weight, other):
    """Distances of all pairs, and which are near."""
    made = x @ weight
    apart = tf.reduce_sum((made[:, None] - made[None]) ** 2, -1)
    near = tf.cast(apart < tf.reduce_mean(apart), tf.float64)
    return tf.reduce_sum(near * apart) / tf.reduce_sum(near), tf.reduce_max(apart)


def centred(x, weight, other):
    """Rows are taken from the mean of all, and a part of the loss is no example's."""
    made = x @ weight
    made = (made - tf.reduce_mean(made, 0)) / (1 + tf.math.reduce_std(made, 0))
    loss = tf.reduce_sum(tf.nn.softplus(made)) + tf.reduce_sum(weight**2)
    return loss, tf.reduce_max(made), tf.reduce_min(made), tf.reduce_all(made < 2.0), tf.shape(x)


def with_another_row(x, weight, other):
    """A group's own rows times rows of all."""
    made = x @ weight
    return tf.reduce_mean(made * tf.roll(made, 1, 0) + made * tf.cumsum(made)), tf.size(x)


def from_itself(x, weight, other):
    """A matrix with a row and a column for each example, of which a group needs rows and columns."""
    made = x @ weight
    gram = tf.matmul(made, made, transpose_b=True) + 3.0 * tf.eye(tf.shape(x)[0], dtype=tf.float64)
    return tf.reduce_sum(tf.linalg.diag_part(gram) * tf.reduce_sum(tf.tanh(made), 1)) - tf.reduce_mean(gram), gram


def in_the_order_of_all(x, weight, other):
    """Numbers of examples, and a dim that takes all that are left."""
    made = x @ weight
    numbers = tf.cast(tf.range(tf.shape(x)[0]), tf.float64)
    flat = tf.reduce_mean(tf.reshape(made, [-1]) ** 2)
    return flat + tf.reduce_sum(tf.reduce_sum(tf.tanh(made), 1) * numbers), tf.sort(made, axis=0)


def by_no_example(x, weight, other):
    """One of the variables has a gradient in which no example has a part."""
    return tf.reduce_mean((x @ weight) ** 2) + tf.reduce_sum(other**2), tf.norm(other)


def of_rows_of_all(x, weight, other):
    """All groups have the same rows of a sparse gradient."""
    found = tf.gather(other, [0, 2, 5]) @ weight
    return tf.reduce_mean(tf.tanh(found)) * tf.reduce_mean(x) + tf.reduce_mean((x @ weight) ** 2), found


LOSSES = (
    contrasted,
    in_both_directions,
    of_two_views,
    of_pairs,
    centred,
    with_another_row,
    from_itself,
    in_the_order_of_all,
    by_no_example,
    of_rows_of_all,
)


QUICK = (in_both_directions, of_two_views, centred, with_another_row, by_no_example)


@pytest.mark.parametrize(
    "loss_of", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in LOSSES]
)
def test_examples_of_several_groups_may_meet(loss_of):
    batches = [[drawn(n, 4)] for n in (8, 5, 3)]
    certify_in_process(training(loss_of), batches, "Tiled(dims=('weight=1', '*=whole'), groups=2)", FOUR, rtol=1e-9)


def test_workers_with_batches_of_their_own_get_values_of_all_and_their_rows():
    step, batch = training(contrasted)(), [drawn(8, 4)]
    with InProcessCluster(step, batch, "Tiled(dims=('weight=1', '*=whole'), groups=2)", FOUR) as cluster:
        for worker in cluster.workers:
            (loss, alike), (own_loss, own_alike) = worker.graph.outputs, worker.graph.local_outputs
            assert own_loss == loss
            assert own_alike != alike


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["('weight=0', 'other=1')", "('weight=1', 'other=0')", "('weight=whole', 'other=0')"])
@pytest.mark.parametrize("loss_of", LOSSES)
def test_so_they_may_with_other_dims_cut(loss_of, dims):
    batches = [[drawn(n, 4)] for n in (8, 5, 2)]
    certify_in_process(training(loss_of), batches, f"Tiled(dims={dims}, groups=2)", FOUR, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("loss_of", LOSSES)
def test_so_they_may_in_more_groups(loss_of, groups):
    eight = ResourceSpec(tuple(Host(name, name, cpus=2) for name in "abcd"))
    batches = [[drawn(n, 4)] for n in (16, 9)]
    text = f"Tiled(dims=('weight=1', '*=whole'), groups={groups})"
    certify_in_process(training(loss_of), batches, text, eight, rtol=1e-9)


@pytest.mark.parametrize("dims", [pytest.param("'other=whole'", marks=pytest.mark.slow), "'other=0'"])
def test_rows_that_all_groups_have_count_once(dims):
    batches = [[drawn(n, 4)] for n in (8, 5)]
    text = f"Tiled(dims=('weight=1', {dims}), groups=2)"
    certify_in_process(training(of_rows_of_all, clip=0.3), batches, text, FOUR, rtol=1e-9)


def given_to(*replicas):
    """A way to share a batch: only these replicas have rows, as where files are not equally long."""

    def split(rows, count, first, local):
        sizes = [0] * count
        for row in range(rows):
            sizes[replicas[row % len(replicas)]] += 1
        ends = np.cumsum([0, *sizes])
        return SimpleNamespace(ranges=[(int(ends[k]), int(ends[k + 1])) for k in range(first, first + local)])

    return split


@pytest.mark.parametrize(
    ("loss_of", "replicas"),
    [
        pytest.param(loss_of, replicas, marks=() if (loss_of, replicas[0]) == (centred, 2) else pytest.mark.slow)
        for loss_of in (centred, by_no_example, of_rows_of_all)
        for replicas in ((2, 3), (1,), (3,))
    ],
)
def test_any_group_may_be_the_first_that_has_rows(loss_of, replicas, monkeypatch):
    """What no example has a part in counts once, whichever groups have examples."""
    monkeypatch.setattr("autodist.testing._in_process._in_process_worker.split_global", given_to(*replicas))
    batches = [[drawn(n, 4)] for n in (8, 3)]
    certify_in_process(training(loss_of), batches, "Tiled(dims=('weight=1', '*=whole'), groups=2)", FOUR, rtol=1e-9)


def image_model():
    body = [layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(2)]
    head = [layers.Conv2D(8, 3, strides=2), layers.GlobalMaxPooling2D(), layers.BatchNormalization(), layers.Dense(6)]
    return keras.Sequential([keras.Input((8, 8, 4)), *body, *head])


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["('*kernel=1', '*=whole')", "('*conv2d*kernel=3', '*=0')"])
def test_images_of_a_group_without_rows(dims):
    """Statistics of batch normalization are those of the whole batch, also by default; kernels need a row."""
    keras.utils.set_random_seed(0)
    model = image_model()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    data = [[drawn(n, *shape).astype(np.float32) for shape in ((8, 8, 4), (6,))] for n in (8, 3, 1)]
    step, losses, after = trained(model, optimizer, data)
    with InProcessCluster(step, data[0], f"Tiled(dims={dims}, groups=2)", FOUR) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=2e-5)
        assert_same(cluster.values(), after)
