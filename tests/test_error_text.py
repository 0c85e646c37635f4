"""What errors say, in one line."""

from pathlib import Path

import pytest
import tensorflow as tf

from autodist.error_text import said_by


def test_of_the_system_s_errors_the_reason_counts():
    with pytest.raises(FileNotFoundError) as caught:
        Path("/does/not/exist").read_text()
    assert said_by(caught.value) == "No such file or directory"


def test_of_tensorflow_s_errors_what_happened_counts_and_not_where():
    @tf.function
    def divided(x):
        return tf.debugging.check_numerics(x / 0.0, "the quotient")

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        divided(tf.constant(1.0))
    assert said_by(caught.value).startswith("the quotient : Tensor had Inf values")


def test_a_session_s_error_is_said_without_the_heading_and_the_place_in_the_program():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        wrong = tf.debugging.check_numerics(x, "the input")
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(wrong, {x: [float("nan")]})
    assert str(caught.value).startswith("Graph execution error:"), "the heading that is left out"
    assert said_by(caught.value).startswith("the input : Tensor had NaN values")


def test_an_error_without_words_is_said_by_its_kind():
    assert said_by(ValueError()) == "ValueError"
    assert said_by(ValueError("\n  first line \n second")) == "first line"
