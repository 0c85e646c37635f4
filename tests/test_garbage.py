"""Garbage waits until a step is described: a collection looks through all that tracing has left behind.

It also waits while TensorFlow and Keras are imported by a worker, which `tests/launch/test_bootstrap.py` sees to.
"""

import gc

import pytest
import tensorflow as tf

from autodist.garbage import garbage_waits, old_objects_stay
from autodist.graph import VariableNames, capture
from autodist.graph.tracing import _capture


@pytest.fixture(autouse=True)
def nothing_is_frozen():
    """Tests' own processes freeze what TensorFlow's import makes, see `tests/lean`; users' do not."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if was_frozen:
        gc.freeze()


def test_garbage_waits_inside_alone():
    with garbage_waits():
        assert not gc.isenabled()
        with garbage_waits():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_is_collected_again_after_an_error():
    with pytest.raises(ValueError, match="wrong"), garbage_waits():
        raise ValueError("wrong")
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_old_and_nothing_stays_frozen():
    with garbage_waits():
        made = [[] for _ in range(5000)]
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young.intersection(map(id, made))
    assert gc.get_freeze_count() == 0


def test_old_objects_stay_inside_alone():
    with old_objects_stay():
        frozen = gc.get_freeze_count()
        with old_objects_stay():
            pass
        assert gc.get_freeze_count() == frozen > 0
    assert gc.get_freeze_count() == 0


def test_objects_that_a_script_has_frozen_remain_so():
    gc.freeze()
    try:
        with old_objects_stay(), garbage_waits():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_garbage_waits_while_a_step_is_described(monkeypatch):
    enabled = []

    def noticing(*arguments):
        enabled.append(gc.isenabled())
        return assign_roles(*arguments)

    assign_roles = _capture.assign_roles
    monkeypatch.setattr(_capture, "assign_roles", noticing)
    w = tf.Variable([1.0, 2.0])

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    capture(step, [tf.TensorSpec([8, 2])], VariableNames())
    assert enabled == [False]
    assert gc.isenabled()
