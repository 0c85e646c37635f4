"""Profiles kept as files: found again for the same step on the same device, and for nothing else."""

import doctest
import importlib
import os
from dataclasses import replace

import pytest
import tensorflow as tf

from autodist.errors import SimulatorError
from autodist.graph import TraceSubject, VariableNames, capture
from autodist.simulator import Profile, ProfileCache

SUBJECT = TraceSubject("a processor, 2 threads, TensorFlow 2.21.0", 32, ((32, 8, 3),))


def graph(activation=tf.nn.relu, width=8, repeat=1, noise=False):
    """A step of one variable, whose fingerprint is the same whatever the arguments are."""
    w = tf.Variable(tf.zeros((3, 4)), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            h = tf.tile(activation(x @ w), [1, 1, repeat])
            h = h + tf.random.normal([1]) if noise else h
            loss = tf.reduce_mean(h)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    return capture(step, [tf.TensorSpec((32, width, 3))], VariableNames()).graph


def profile():
    return Profile(0.2, {"w": 0.0}, {"w": 0.2}, 32, "measured", {"MatMul": 0.1}, {"w": 0.1}, 0.3, 0.9, SUBJECT.device)


def test_a_profile_is_found_by_another_tracing_of_the_same_step(tmp_path):
    cache = ProfileCache(tmp_path / "new" / "cache")
    assert cache.load(graph(), SUBJECT) is None
    path = cache.save(graph(), SUBJECT, profile())
    assert cache.load(graph(), SUBJECT) == profile()
    assert os.listdir(path.parent) == [path.name], "no drafts are left"
    tf.random.set_seed(1)
    first = cache.path(graph(noise=True), SUBJECT)
    tf.random.set_seed(2)
    assert cache.path(graph(noise=True), SUBJECT) == first


@pytest.mark.parametrize("change", [{"activation": tf.nn.tanh}, {"width": 16}, {"repeat": 2}])
def test_another_computation_on_the_same_variables_is_another_step(tmp_path, change):
    one, other = graph(), graph(**change)
    assert one.variables == other.variables
    cache = ProfileCache(tmp_path)
    cache.save(one, SUBJECT, profile())
    assert cache.load(other, SUBJECT) is None


@pytest.mark.parametrize(
    "change",
    [{"device": "another"}, {"batch_size": 16}, {"shapes": ((32, 9, 3),)}],
    ids=lambda change: next(iter(change)),
)
def test_another_device_or_batch_is_another_step(tmp_path, change):
    cache, step = ProfileCache(tmp_path), graph()
    cache.save(step, SUBJECT, profile())
    assert cache.load(step, replace(SUBJECT, **change)) is None


def test_the_newest_profile_of_a_step_whatever_its_batch(tmp_path):
    cache, step = ProfileCache(tmp_path), graph()
    assert cache.newest(step) is None
    for batch_size in (16, 8):
        path = cache.save(step, replace(SUBJECT, batch_size=batch_size), replace(profile(), batch_size=batch_size))
        os.utime(path, (batch_size, batch_size))
    cache.save(graph(activation=tf.nn.tanh), SUBJECT, profile())
    assert cache.newest(step).batch_size == 16


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"version": 99}'])
def test_a_damaged_file_is_named(tmp_path, content):
    cache, step = ProfileCache(tmp_path), graph()
    path = cache.save(step, SUBJECT, profile())
    path.write_bytes(content)
    with pytest.raises(SimulatorError, match=path.name):
        cache.load(step, SUBJECT)
    cache.save(step, SUBJECT, profile())
    assert cache.load(step, SUBJECT) == profile()


def test_a_file_under_a_wrong_name_is_refused(tmp_path):
    cache, step = ProfileCache(tmp_path), graph()
    cache.save(step, SUBJECT, replace(profile(), ready_s={"v": 0.2}))
    with pytest.raises(SimulatorError, match="is the profile of another graph"):
        cache.load(step, SUBJECT)


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"AUTODIST_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/profiles"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/autodist/profiles"),
        ({"XDG_CACHE_HOME": "relative"}, "~/.cache/autodist/profiles"),
        ({}, "~/.cache/autodist/profiles"),
    ],
)
def test_where_the_cache_is(environ, directory):
    assert str(ProfileCache.of_user(environ).directory) == os.path.expanduser(directory)


@pytest.mark.parametrize(
    "name",
    [
        "graph._step_trace",
        "runtime.measuring._step_profiler",
        "simulator.profiles._step_profile",
        "simulator.profiles._profile_cache",
    ],
)
def test_docstring_examples(name):
    done = doctest.testmod(importlib.import_module(f"autodist.{name}"))
    assert done.failed == 0
    assert done.attempted
