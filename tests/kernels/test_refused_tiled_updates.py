"""Updates that parts of variables can't do together: each is refused, and names the operator."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture
from autodist.strategies import check, compose

from . import single
from .test_tiled_updates import TWO, assigned, plain, step_of


def refused(update, strategy="Tiled(dims=['one/kernel=0', 'two/kernel=0', '*=whole'])"):
    step, numbers = step_of(update, plain()), np.random.default_rng(1)
    graph = capture(step, single.specs_of([numbers.normal(size=(8, n)) for n in (12, 6)]), VariableNames()).graph
    check(compose(strategy, graph, TWO), graph, TWO)


def with_side_effect(effect):
    def update(variables, gradients):
        def change():
            effect(variables[0], gradients[0])
            assigned(variables, gradients)

        tf.cond(tf.norm(gradients[0]) < 10.0, change, lambda: None)

    return update


def drawing(variable, gradient):
    variable.assign_sub(tf.random.normal(gradient.shape, dtype="float64"))


def printing(variable, gradient):
    tf.print(tf.norm(gradient))


def dividing(variable, gradient):
    variable.assign_sub(tf.cast(12 // tf.cast(tf.reduce_max(gradient), "int32"), "float64") * gradient)


def checking(variable, gradient):
    variable.assign_sub(tf.debugging.check_numerics(gradient, "it"))


@pytest.mark.parametrize("effect", [drawing, printing, dividing, checking], ids=lambda found: found.__name__)
def test_branches_that_do_something_else_stay(effect):
    """Both branches are computed: what is not taken must neither fail nor be seen."""
    with pytest.raises(StrategyError, match=r"`cond` \(If\) changes all, and is not a plain choice: it .* draws, pr"):
        refused(with_side_effect(effect))


def of_each_row(variables, gradients):
    variables[0].assign_sub(gradients[0] / tf.reduce_max(gradients[0], axis=0, keepdims=True))
    assigned(variables[1:], gradients[1:])


def of_another(variables, gradients):
    assigned(variables, gradients)
    variables[0].assign_sub(0.1 * tf.transpose(gradients[2] @ tf.ones([6, 12], "float64")))


def of_a_product(variables, gradients):
    assigned(
        variables,
        [g / (1 + tf.linalg.trace(tf.matmul(gradients[0], gradients[0], transpose_b=True))) for g in gradients],
    )


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (of_each_row, r"\(Max\) looks at more than one part of the update"),
        (of_another, "its update can't be separated from that of `two/kernel`"),
        (of_a_product, r"\(MatMul\) looks at more than one part of the update"),
    ],
    ids=lambda found: getattr(found, "__name__", ""),
)
def test_what_parts_can_t_do_together_is_refused(update, words):
    with pytest.raises(StrategyError, match=words):
        refused(update)
