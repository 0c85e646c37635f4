"""Garbage waits until a step is described: a collection looks through all that tracing has left behind."""

import gc

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture, garbage_waits
from autodist.graph.tracing import _capture


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
