"""Programs of arrays with loops whose turns depend on data: replicas share each turn."""

import logging
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.resource_spec import ResourceSpec

from . import looped_programs
from .looped_programs import PROGRAMS, compare, grouped, nested, never, normal


@pytest.fixture
def small_pays(monkeypatch):
    looped_programs.count_bytes_alone(monkeypatch.setattr)


def run(program, arrays, dims=True):
    with autodist.scope(ResourceSpec.local(cpus=2)):
        step = autodist.function(program, arrays=dims)
        return [step(*arrays), step(*arrays)][1]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_turns_are_shared(program, small_pays, caplog):
    arrays = PROGRAMS[program]
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(program, arrays)
    compare(found, tf.function(program)(*map(tf.constant, arrays)))
    is_shared = "a turn of the loop`: replicas have parts of `" in caplog.text
    assert is_shared == (program is not never), caplog.text
    assert "runs whole" not in caplog.text


@pytest.mark.parametrize("dims", [(0, None), (1, None), (1, 1)], ids=str)
def test_dims_of_arguments_are_those_of_the_values_of_a_loop(dims, small_pays, caplog):
    arrays = PROGRAMS[grouped]
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(grouped, arrays, dims)
    compare(found, tf.function(grouped)(*map(tf.constant, arrays)))
    assert re.search(f"a turn of the loop`: replicas have parts of .*`points` along dim {dims[0]}", caplog.text)


def test_a_loop_of_short_turns_is_computed_whole(caplog):
    arrays = PROGRAMS[nested]
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(nested, arrays)
    compare(found, tf.function(nested)(*map(tf.constant, arrays)))
    assert "a turn of" not in caplog.text
    assert "`nested` runs whole on every worker" in caplog.text


def test_what_is_not_the_loop_is_shared_even_if_turns_are_short(caplog):
    def product(a, b):
        found, most = tf.reduce_sum(a @ b, 0), tf.constant(1e4)
        while tf.reduce_max(found) < most:
            found = found * 2.0 + 1.0
        return found

    arrays = [normal(2000, 300), normal(300, 1000)]
    with caplog.at_level(logging.INFO, "autodist"):
        found = run(product, arrays)
    expected = tf.function(product)(*map(tf.constant, arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1.0)
    assert "`product`: replicas have parts of `" in caplog.text


def test_programs_with_variables_lists_or_checks_have_their_loops_whole(small_pays, caplog):
    weight = tf.Variable(2.0)

    def checked(array):
        while tf.reduce_max(array) > 0.1:
            tf.debugging.assert_less(array, 100.0)
            array = array / 2.0
        return array

    def by_variable(array):
        while tf.reduce_max(array) > 0.1:
            array = array / weight
        return array

    def listed(array):
        found, k = tf.TensorArray(tf.float32, 0, dynamic_size=True), 0
        while tf.reduce_max(array) > 0.1:
            found, array, k = found.write(k, tf.reduce_sum(array, 0)), array / 2.0, k + 1
        return found.stack()

    array = normal(60, 20)
    for program in (by_variable, listed, checked):
        with caplog.at_level(logging.INFO, "autodist"):
            compare(run(program, [array]), tf.function(program)(tf.constant(array)))
    assert "a turn of the loop" not in caplog.text


def test_workers_share_turns(tmp_path):
    command = [sys.executable, "-m", "autodist", "run", looped_programs.__file__, "--workers", "2"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("all programs are those of one device") == 2
    assert "`grouped, a turn of the loop`: replicas have parts of `points` along dim 0" in result.stderr
