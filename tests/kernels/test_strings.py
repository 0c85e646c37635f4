"""Strings within a step: replicas send them each other where examples meet, and weights are those of one device."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError

from . import single
from .test_replicate import check

START = np.random.default_rng(5).normal(size=(11, 3)).astype(np.float32)
WORDS = [b"abc1", b"b2", b"", "zä3".encode(), b"cq\x00\xff4", b"q5", b"aaab6", b"b2"]
SIZES = (2, 0, 6)


def strings(values):
    return np.array(values, object)


def example(k):
    features = {
        "a": tf.train.Feature(float_list=tf.train.FloatList(value=START[k])),
        "r": tf.train.Feature(int64_list=tf.train.Int64List(value=range(k % 4))),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def of_all_words(s, w):
    """A number that is made of the words of all examples, one behind the other."""
    rows = tf.gather(w, tf.strings.to_hash_bucket_fast(s, 11))
    all_words = tf.strings.reduce_join(s, separator=",")
    return tf.reduce_mean(rows**2) * tf.cast(tf.strings.to_hash_bucket_fast(all_words, 11) + 1, tf.float32)


def parsed(s, w):
    spec = {"a": tf.io.FixedLenFeature([3], tf.float32), "r": tf.io.RaggedFeature(tf.int64)}
    found = tf.io.parse_example(s, spec)
    longest = tf.cast(tf.shape(found["r"].to_tensor())[1], tf.float32)
    return tf.reduce_mean((found["a"] @ w[:3]) ** 2) + longest * tf.reduce_mean(w[:3] ** 2)


def from_csv(s, w):
    columns = tf.io.decode_csv(s, [[0.0], [1.0], [2.0]])
    return tf.sqrt(1e-3 + tf.reduce_mean((tf.stack(columns, 1) @ w[:3]) ** 2))


def of_characters(s, w):
    codes = tf.strings.unicode_decode(s, "UTF-8")
    return tf.reduce_mean(tf.reduce_sum(tf.gather(w, codes % 11), 1) ** 2) + tf.reduce_mean(w[:2]) * tf.cast(
        tf.reduce_max(codes.row_lengths()), tf.float32
    )


LINES = [b"1,2,3", b",2,1", b"0.5,,1", b"1,1,1", b"2,.1,3", b"0,0,1", b"1,2,", b".1,.2,.3"]
CASES = {
    "joined": (of_all_words, WORDS),
    "parsed": (parsed, [example(k) for k in range(8)]),
    "csv": (from_csv, LINES),
    "characters": (of_characters, [word for word in WORDS if b"\xff" not in word] + [b"last"]),
}


def step_of(loss, w):
    def step(s):
        with tf.GradientTape() as tape:
            value = loss(s, w)
        w.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(value, w)))
        return value

    return step


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_one_device(name):
    loss, examples = CASES[name]
    w = tf.Variable(START, name="w")
    ran = check(step_of(loss, w), [[strings(examples)], [strings(examples[::-1])]], SIZES, w)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-4


def test_what_no_plan_is_found_for_is_refused_with_its_line(monkeypatch):
    """Of all that is known today there is a plan, so one is made impossible."""
    monkeypatch.setattr("autodist.graph.layouts._plan._ALONE", frozenset({"string", "variant", "resource"}))
    step = step_of(of_all_words, tf.Variable(START, name="w"))
    with pytest.raises(CaptureError, match=r"replicas can't share this step.*values that can't be sent") as raised:
        single.rewritten(step, [strings(WORDS)], 2)
    assert "ReduceJoin" in str(raised.value)
    assert "test_strings.py:" in str(raised.value)
    assert "dataset.map" in raised.value.hint
