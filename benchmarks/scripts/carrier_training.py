"""A step that computes next to nothing and sends much: 64 variables of 4 KiB and 8 of 4 MiB."""

import numpy as np
import tensorflow as tf

import autodist

SMALL, LARGE = 64, 8

x = np.ones((8, 1), "float32")

with autodist.scope():
    shapes = {f"small_{n}": (1024,) for n in range(SMALL)} | {f"large_{n}": (1024, 1024) for n in range(LARGE)}
    variables = [tf.Variable(tf.zeros(shape), name=name) for name, shape in shapes.items()]

    @autodist.function
    def step(x):
        with tf.GradientTape() as tape:
            scale = tf.reduce_mean(x)
            # Each gradient is another one: of equal tensors TensorFlow would have Horovod reduce one.
            sums = [number * tf.reduce_sum(variable) for number, variable in enumerate(variables, 1)]
            loss = scale * tf.add_n(sums)
        gradients = tape.gradient(loss, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(1e-6 * gradient)
        return loss

    step(x)
