"""What a training script touches, in one process."""

import inspect
import logging

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import StrategyError, UsageError
from autodist.strategies import PSLoadBalancing, Strategy


def weight_and_step(ad):
    w = tf.Variable(tf.ones([3]))

    @ad.function
    def train_step(x):
        """Move the weight."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w[:, None]) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return w, train_step


def test_explicit_form_names_its_strategies_and_rank():
    ad = autodist.AutoDist(autodist.ResourceSpec.local(cpus=2), PSLoadBalancing())
    assert (ad.rank, ad.world_size) == (0, 1)
    assert ad.strategies == ()
    with ad.scope() as opened:
        assert opened is ad
        w, step = weight_and_step(ad)
        assert (step.__name__, step.__doc__) == ("train_step", "Move the weight.")
        step(np.ones((4, 3), "float32"))
    assert [strategy.builder for strategy in ad.strategies] == ["PSLoadBalancing()"]
    assert isinstance(ad.strategies[0], Strategy)
    assert not np.array_equal(w, np.ones(3))


def test_strategy_by_name_file_builder_and_object(tmp_path):
    ad = autodist.AutoDist(strategy="AllReduce(chunk_size=64)")
    with ad.scope():
        weight_and_step(ad)[1](np.ones((4, 3), "float32"))
    ad.strategies[0].save(tmp_path / "strategy.json")
    for strategy in (tmp_path / "strategy.json", str(tmp_path / "strategy.json"), ad.strategies[0]):
        again = autodist.AutoDist(strategy=strategy)
        with again.scope():
            weight_and_step(again)[1](np.ones((4, 3), "float32"))
        assert again.strategies == ad.strategies


def test_unknown_strategy_is_refused_before_anything_runs():
    with pytest.raises(StrategyError, match="AllReduc"):
        autodist.AutoDist(strategy="AllReduc")


def test_misspelt_arguments_are_told_with_what_was_meant():
    with pytest.raises(UsageError, match="`scope` has no argument `stratgy`, did you mean `strategy`"):
        autodist.scope(stratgy="PS")
    with pytest.raises(UsageError, match="`AutoDist` has no argument `batch_size`"):
        autodist.AutoDist(batch_size=3)
    shown = inspect.getdoc(autodist.scope)
    for name in inspect.signature(autodist.AutoDist).parameters:
        assert name in inspect.signature(autodist.scope).parameters
        assert f"{name}: " in shown


def test_functions_of_a_scope_and_of_any_scope():
    ad, other = autodist.AutoDist(), autodist.AutoDist()
    with ad.scope():
        _, step = weight_and_step(ad)
    w, anywhere = weight_and_step(autodist)
    with other.scope():
        anywhere(np.ones((4, 3), "float32"))
        with pytest.raises(UsageError, match="`train_step` was called outside of its scope"):
            step(np.ones((4, 3), "float32"))
    assert not np.array_equal(w, np.ones(3))


def test_tensorflow_is_as_before_after_a_scope():
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    before = [dict(cls.__dict__) for cls in (BaseResourceVariable, Function, TensorFlowTrainer)]

    def failing():
        with autodist.scope():
            assert "_handle" in BaseResourceVariable.__dict__
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert before == [dict(cls.__dict__) for cls in (BaseResourceVariable, Function, TensorFlowTrainer)]


def test_the_strategy_in_use_is_logged(caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        logging.getLogger("autodist").propagate = True
        ad = autodist.AutoDist(autodist.ResourceSpec.local(cpus=2), "PSLoadBalancing")
        with ad.scope():
            weight_and_step(ad)[1](np.ones((4, 3), "float32"))
    assert any(
        "strategy PSLoadBalancing(); 1 variable," in m and "2 replicas on 1 worker" in m for m in caplog.messages
    )


def test_gradient_reduction_sum():
    x = np.arange(12, dtype="float32").reshape(4, 3) / 10
    found = []
    for options in ({}, {"spec": autodist.ResourceSpec.local(cpus=3)}):
        with autodist.scope(gradient_reduction="sum", **options):
            w = tf.Variable(tf.ones([3]))

            @tf.function
            def step(x, w=w):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum((x @ w[:, None]) ** 2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            found.append((float(step(x)), w.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


def test_misspelt_settings_of_a_checkpoint_are_told(tmp_path):
    ad = autodist.AutoDist()
    with ad.scope(), pytest.raises(UsageError, match=r"`every_step` is a int, .*, did you mean `every_steps`"):
        ad.checkpoint(tmp_path, every_step=100)
