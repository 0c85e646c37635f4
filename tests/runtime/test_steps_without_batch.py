"""Steps without a batch."""

import pytest
import tensorflow as tf

from .programs import adam, assert_same, batches, everything, make_model


@pytest.mark.parametrize("strategy", ["PSLoadBalancing", "AllReduce"])
def test_gradients_that_one_function_adds_up_are_applied_by_another(strategy):
    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]

            @tf.function
            def add(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
                for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables), strict=True):
                    total.assign_add(gradient / 2)
                return loss

            @tf.function
            def apply():
                totals = [tf.convert_to_tensor(total) for total in sums]
                optimizer.apply_gradients(zip(totals, model.trainable_variables, strict=True))
                for total in sums:
                    total.assign(tf.zeros_like(total))

            losses = []
            for k, batch in enumerate(batches(6)):
                losses.append(float(add(*batch)))
                if k % 2:
                    apply()
        return losses, everything(model, optimizer), [total.numpy() for total in sums]

    assert_same(program, strategy=strategy)


def test_gradients_by_points_that_are_drawn_inside_the_step():
    def program(scope):
        with scope():
            w, v = tf.Variable(tf.ones((1, 3))), tf.Variable([[0.5], [1.0], [-1.0]])

            @tf.function
            def step():
                points = tf.random.uniform((7, 1))
                with tf.GradientTape() as tape:
                    with tf.GradientTape() as inner:
                        inner.watch(points)
                        values = tf.tanh(points @ w) @ v
                    loss = tf.reduce_mean((inner.gradient(values, points) - 1.0) ** 2)
                for variable, gradient in zip((w, v), tape.gradient(loss, (w, v)), strict=True):
                    variable.assign_sub(0.1 * gradient)
                return loss

            losses = [float(step()) for _ in range(3)]
        return losses, w.numpy(), v.numpy()

    assert_same(program)
