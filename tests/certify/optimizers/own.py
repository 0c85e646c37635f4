"""Optimizers as users write them."""

import keras
from keras import ops


class Momentum(keras.optimizers.Optimizer):
    """With a slot, as Keras' documentation shows it."""

    def build(self, variables):
        super().build(variables)
        self.momentums = self.add_optimizer_variables(variables, "momentum")

    def update_step(self, gradient, variable, learning_rate):
        momentum = self.momentums[self._get_variable_index(variable)]
        rate = ops.cast(learning_rate, variable.dtype)
        self.assign(momentum, 0.9 * momentum.value - rate * ops.convert_to_tensor(gradient))
        self.assign_add(variable, momentum.value)


class Centralized(Momentum):
    """Changes the gradients before they are applied."""

    def apply(self, grads, trainable_variables=None, **options):
        dense = [
            ops.reshape(ops.convert_to_tensor(g), v.shape) for g, v in zip(grads, trainable_variables, strict=True)
        ]
        centered = [g - ops.mean(g, axis=0, keepdims=True) if len(g.shape) > 1 else g for g in dense]
        super().apply(centered, trainable_variables, **options)


class StepNorm(keras.optimizers.Optimizer):
    """A step of a given length, and a counter for all variables together."""

    def build(self, variables):
        super().build(variables)
        self.travelled = self.add_variable(shape=(), name="travelled")

    def update_step(self, gradient, variable, learning_rate):
        gradient = ops.convert_to_tensor(gradient)
        length = ops.sqrt(ops.sum(ops.square(gradient)))
        self.assign_sub(variable, learning_rate * gradient / (length + 1e-3))
        self.assign_add(self.travelled, length)
