"""Uses of `fit` that work as they do in Keras, or that are refused with a hint, on several replicas of one worker."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import UsageError

from .programs import TWO, assert_same, compiled_model, data, everything
from .test_fit import ARRAYS, HELD_OUT, dataset

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")


def test_compiled_before_the_scope_and_evaluated_there():
    def program(scope):
        model = compiled_model(metrics=["mae"])
        before = model.evaluate(*HELD_OUT, verbose=0)
        with scope():
            model.fit(**ARRAYS, validation_data=HELD_OUT, verbose=0)
            inside = model.evaluate(*HELD_OUT, verbose=0), model.predict(HELD_OUT[0], verbose=0)
        after = model.evaluate(*HELD_OUT, verbose=0), model.predict(HELD_OUT[0], verbose=0)
        return before, inside, after, everything(model)

    assert_same(program)


def test_evaluation_is_shared_where_it_is_exact():
    with autodist.scope(**TWO) as ad:
        model = compiled_model(metrics=["mae"])
        assert not ad._engine.can_share
        model.fit(**ARRAYS, verbose=0)
        assert ad._engine.can_share
        expected = model.evaluate(*HELD_OUT, verbose=0)
        unordered = tf.data.Dataset.from_tensor_slices(HELD_OUT).shuffle(50).batch(7)
        np.testing.assert_allclose(model.evaluate(unordered, verbose=0), expected, rtol=1e-5)
        assert len(_shared(ad)) == 1, "batches in an order of its own were not shared"

        compared = compiled_model(metrics=[_distance_within_batch])
        compared.fit(**ARRAYS, verbose=0)
        whole = compared.evaluate(*HELD_OUT, batch_size=20, verbose=0)
        compared.predict(HELD_OUT[0], verbose=0)
        assert len(_shared(ad)) == 3, "what compares examples is computed from gathered rows"
    np.testing.assert_allclose(compared.evaluate(*HELD_OUT, batch_size=20, verbose=0), whole, rtol=1e-5)


def _shared(ad):
    return [strategy for strategy in ad._engine._compiler._steps.strategies if not strategy.variables]


def _distance_within_batch(y_true, y_pred):
    return tf.reduce_mean(tf.abs(y_pred - tf.transpose(y_pred)), axis=-1)


def test_evaluation_may_be_whole():
    with autodist.scope(**TWO, evaluation="whole") as ad:
        model = compiled_model()
        model.fit(**ARRAYS, verbose=0)
        model.evaluate(*HELD_OUT, verbose=0)
        assert not _shared(ad)
    with pytest.raises(UsageError, match="`evaluation` is 'half', allowed: 'shared', 'whole'"):
        autodist.AutoDist(evaluation="half")


@pytest.mark.parametrize("where", ["fit", "evaluate", "predict"])
def test_sharded_data_where_batches_are_shared_anyway(where):
    with autodist.scope(**TWO) as ad:
        model = compiled_model()
        arguments = {**ARRAYS, "validation_data": ad.shard(dataset())} if where == "fit" else {"x": ad.shard(dataset())}
        with pytest.raises(UsageError, match=r"`ad.shard\(dataset\)`, it takes the dataset itself") as raised:
            getattr(model, where)(**arguments)
    assert "leave `ad.shard` out" in raised.value.hint


@pytest.mark.parametrize("around", ["model", "fit"])
def test_inside_tf_distribute(around):
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope() if around == "model" else contextlib.nullcontext():
        model = compiled_model()
    with contextlib.ExitStack() as stack:
        stack.enter_context(autodist.scope(**TWO))
        stack.enter_context(strategy.scope() if around == "fit" else contextlib.nullcontext())
        raised = stack.enter_context(pytest.raises(UsageError, match=r"belongs to a `tf.distribute.OneDeviceStrategy`"))
        model.fit(*data(), verbose=0)
    assert "leave `tf.distribute` out" in raised.value.hint


def test_frozen_without_compiling_again():
    """Keras goes on with the step that it has traced; so does the scope."""

    def program(scope):
        with scope():
            model = compiled_model()
            model.fit(**ARRAYS, verbose=0)
            model.layers[0].trainable = False
            model.fit(**ARRAYS, verbose=0)
        return everything(model)

    assert_same(program)
