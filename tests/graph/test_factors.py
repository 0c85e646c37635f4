"""Which gradients are products over the batch, and why others are not."""

import keras
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture, factors_of

Dense, EinsumDense = keras.layers.Dense, keras.layers.EinsumDense


def captured(model, shape):
    model.build(shape)
    targets = model.compute_output_shape(shape)
    optimizer = keras.optimizers.SGD(0.1)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))
            loss += tf.add_n(model.losses) if model.losses else 0.0
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return capture(step, [tf.TensorSpec(shape), tf.TensorSpec(targets)], VariableNames()).graph


def functional(loss, *specs, shape=(4, 3), dtype=tf.float32):
    """A step that applies the gradient of a loss of one weight and the step's arguments."""
    w = tf.Variable(tf.ones(shape, dtype), name="w")

    def step(*args):
        with tf.GradientTape() as tape:
            value = loss(w, *args)
        w.assign_sub(tape.gradient(value, w))

    return capture(step, [tf.TensorSpec(s, dtype) for s in specs], VariableNames()).graph


@pytest.mark.parametrize(
    ("layer", "shape", "width", "rows"),
    [
        (Dense(5), (8, 4), 9, 1),
        (Dense(5, activation="gelu"), (8, 4), 9, 1),
        (Dense(5, kernel_regularizer=keras.regularizers.L1L2(0.1, 0.1)), (8, 4), 9, 1),
        (Dense(5, dtype="mixed_bfloat16"), (8, 4), 9, 1),
        (Dense(5), (8, 7, 4), 9, 7),
        (Dense(5, kernel_regularizer="l2"), (8, 7, 4), 9, 7),
        (Dense(5), (8, 2, 7, 4), 9, 14),
        (EinsumDense("abc,cd->abd", output_shape=(None, 5)), (8, 7, 4), 9, 7),
        (EinsumDense("abc,cde->abde", output_shape=(None, 2, 3)), (8, 7, 4), 10, 7),
        (EinsumDense("abcd,cde->abe", output_shape=(None, 5)), (8, 7, 2, 2), 9, 7),
    ],
)
def test_kernels_of_dense_layers_have_factors(layer, shape, width, rows):
    graph = captured(keras.Sequential([type(layer).from_config(layer.get_config())]), shape)
    (name,) = (v.name for v in graph.trainable if "kernel" in v.name)
    factors = factors_of(graph, name)
    assert factors.obstacle is None
    assert (factors.width, factors.rows_per_example) == (width, rows)


def square(x):
    return tf.reduce_sum(tf.square(x))


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (lambda w, x: square(tf.matmul(x, w)), (8, 4)),
        (lambda w, x: square(tf.matmul(x, w, transpose_b=True)), (8, 3)),
        (lambda w, x: square(tf.matmul(tf.transpose(x), w, transpose_a=True)), (8, 4)),
        (lambda w, x: square(tf.matmul(w, x, transpose_b=True)), (8, 3)),
        (lambda w, x: square(tf.matmul(w, x, transpose_a=True, transpose_b=True)), (8, 4)),
        (lambda w, x: square(tf.matmul(w, x)), (8, 3, 5)),
        (lambda w, x: square(tf.einsum("ab,bc->ac", x, w)), (8, 4)),
        (lambda w, x: square(tf.einsum("tab,bc->cta", x, w)), (8, 5, 4)),
        (lambda w, x: square(tf.matmul(x, w)), (8, 5, 4)),
        (lambda w, x: square(3.0 * tf.matmul(x, w) / 2.0 - 1.0), (8, 4)),
        (lambda w, x: square(tf.matmul(x, 2.0 * w)) - square(w), (8, 4)),
        (lambda w, x: square(tf.matmul(x, tf.transpose(w))), (8, 3)),
        (lambda w, x: square(tf.matmul(tf.cast(x, tf.float64), tf.cast(w, tf.float64))), (8, 4)),
        (lambda w, x: square(tf.tensordot(x, tf.reshape(w, [2, 2, 3]), 2)), (8, 2, 2)),
        (lambda w, x: square(tf.matmul(tf.tanh(tf.matmul(x, w)), w, transpose_b=True)), (8, 4)),
        (lambda w, x: square(tf.matmul(tf.boolean_mask(x, x[:, 0] > 0), w)), (8, 4)),
    ],
)
def test_a_matrix_may_be_used_in_any_way_that_is_linear(loss, shape):
    factors = factors_of(functional(loss, shape), "w")
    assert factors.obstacle is None
    for product in (p for gradient in factors.gradients for p in gradient.products):
        assert product.left.width * product.right.width == 12


def test_a_weight_that_is_used_twice_has_two_products():
    graph = functional(lambda w, x: square(tf.matmul(x @ w, w, transpose_b=True)), (8, 4))
    (gradient,) = factors_of(graph, "w").gradients
    assert len(gradient.products) == 2
    assert gradient.added == ()


def test_terms_that_do_not_depend_on_the_batch_are_added_behind():
    (gradient,) = factors_of(functional(lambda w, x: square(x @ w) + square(w), (8, 4)), "w").gradients
    assert len(gradient.products) == len(gradient.added) == 1


@pytest.mark.parametrize(
    ("loss", "specs", "shape", "said"),
    [
        (lambda w, x: square(x * w), [(8, 3)], (3,), "(Sum) is neither a product over the batch nor linear in one"),
        (lambda w, x: square(tf.nn.bias_add(x, w)), [(8, 3)], (3,), "(BiasAddGrad) is neither"),
        (lambda w, x: square(tf.nn.conv2d(x, w, 1, "SAME")), [(8, 5, 5, 2)], (3, 3, 2, 4), "(Conv2DBackpropFilter)"),
        (lambda w, x: square(tf.gather(w, tf.cast(x, tf.int32))), [(8,)], (4, 3), "its gradient is sparse"),
        (lambda w, x: square(w) + 0.0 * tf.reduce_sum(x), [(8,)], (4, 3), "does not depend on the batch"),
        (lambda w, x: square(tf.reduce_mean(x, 0, True) @ w), [(8, 4)], (4, 3), "does not contract the batch"),
        (lambda w, x: square(tf.einsum("ab,bc->abc", x, w)), [(8, 4)], (4, 3), "not a product of two matrices"),
        (lambda w, x: square(tf.matmul(tf.tanh(w) * tf.reduce_sum(x), w, True)), [(8, 4)], (4, 3), "does not contract"),
    ],
)
def test_other_gradients_have_an_obstacle_that_names_the_op(loss, specs, shape, said):
    factors = factors_of(functional(loss, *specs, shape=shape), "w")
    assert factors.gradients == ()
    assert said in factors.obstacle


def test_a_gradient_that_replicas_compute_with_is_not_factored():
    w = tf.Variable(tf.ones([4, 3]), name="w")

    def step(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = square(x @ w)
            loss += square(x @ (w - inner.gradient(loss, w)))
        w.assign_sub(outer.gradient(loss, w))

    graph = capture(step, [tf.TensorSpec([8, 4])], VariableNames()).graph
    assert "a second derivative" in factors_of(graph, "w").obstacle


def ids(x):
    return tf.cast(x, tf.int32)


@pytest.mark.parametrize(
    ("loss", "spec", "coded", "rows"),
    [
        (lambda w, x: square(tf.one_hot(ids(x), 4) @ w), (8,), ("left",), 1),
        (lambda w, x: square(tf.one_hot(ids(x), 4, axis=1) @ w), (8,), ("left",), 1),
        (lambda w, x: square(tf.matmul(w, tf.one_hot(ids(x), 4), True, True)), (8,), ("left",), 1),
        (lambda w, x: square(tf.matmul(w, tf.one_hot(ids(x), 3), False, True)), (8,), ("right",), 1),
        (lambda w, x: square(tf.one_hot(ids(x), 4) @ w), (8, 7), ("left",), 7),
        (lambda w, x: square(tf.cast(tf.one_hot(ids(x), 4, dtype=tf.int64), tf.float32) @ w), (8,), ("left",), 1),
        (lambda w, x: square(keras.ops.one_hot(ids(x), 4) @ w), (8,), ("left",), 1),
        (lambda w, x: square(keras.layers.CategoryEncoding(4, "one_hot")(ids(x)) @ w), (8,), ("left",), 1),
        (lambda w, x: square(tf.matmul(tf.one_hot(ids(x), 4, axis=0), w, transpose_a=True)), (8,), (), 1),
        (lambda w, x: square(tf.one_hot(ids(x), 4, on_value=2.0) @ w), (8,), (), 1),
        (lambda w, x: square(tf.one_hot(ids(x), 4, off_value=0.1) @ w), (8,), (), 1),
        (lambda w, x: square(tf.one_hot(ids(x), 2 * tf.size(w) // 6) @ w), (8,), (), 1),
        (lambda w, x: square(tf.reshape(tf.one_hot(ids(x), 2), [-1, 4]) @ w), (8, 2), (), 1),
        (lambda w, x: square((2.0 * tf.one_hot(ids(x), 4)) @ w), (8,), (), 1),
    ],
)
def test_one_hot_rows_travel_as_the_places_of_their_ones(loss, spec, coded, rows):
    factors = factors_of(functional(loss, spec), "w")
    (product,) = factors.gradients[0].products
    found = tuple(side for side in ("left", "right") if getattr(product, side).ids is not None)
    assert found == coded
    width = {(): 4 + 3, ("left",): 1 + 3, ("right",): 4 + 1}[coded]
    assert (factors.width, factors.bytes_per_example) == (width, 4 * width * (rows or 1))
    assert factors.rows_per_example == rows


def test_of_two_factors_with_one_hot_rows_one_keeps_its_numbers():
    """A table of how often two words meet: the replicas' gradients have to be weighted."""
    graph = functional(lambda w, x: tf.reduce_sum((tf.one_hot(ids(x), 4) @ w) * tf.one_hot(ids(x), 3)), (8,))
    (product,) = factors_of(graph, "w").gradients[0].products
    assert (product.left.ids is None) != (product.right.ids is None)
