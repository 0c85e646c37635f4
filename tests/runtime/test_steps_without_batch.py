"""A step without a batch may change what an earlier step keeps: at servers of other workers, see tests/wild."""

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
