"""What the features share: a registry of cases, and the usual training loop."""

import tensorflow as tf

from ..data import Case, PlainModel, dense_batches, keras_model, mean_squared, sparse_batches

CASES = {}


def case(**options):
    """Register a training function under its name, with arguments for its scope."""

    def register(train):
        CASES[train.__name__] = Case(train, options)
        return train

    return register


def supervised(ad, model, apply, data=None, loss=mean_squared, outputs=None, variables=None):
    """The usual loop: one tape, one update; `outputs` makes more to return from (loss, gradients, y, predicted)."""
    variables = variables or (model.variables if isinstance(model, PlainModel) else model.trainable_variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            predicted = model(x)
            value = loss(y, predicted)
        gradients = tape.gradient(value, variables)
        apply(gradients, variables)
        return value if outputs is None else (value, outputs(value, gradients, y, predicted))

    for x, y in data or dense_batches():
        step(x, y)


def sgd(gradients, variables):
    for gradient, variable in zip(gradients, variables, strict=True):
        variable.assign_sub(0.1 * gradient)


def with_optimizer(ad, optimizer, kind="dense", **options):
    model = keras_model(kind)
    optimizer.build(model.trainable_variables)
    data = dense_batches() if kind == "dense" else sparse_batches()
    supervised(ad, model, optimizer.apply, data, **options)
