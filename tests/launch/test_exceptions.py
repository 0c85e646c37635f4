"""What the launcher is told of an exception: the user's own error and line, however a library has wrapped it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import UsageError, WorkerFailed
from autodist.worker._exceptions import note_of, trace_of


def note(function, *args, line=None, **more):
    """The note of what a function raises; `line` counts from its `def`, the test's own frame is there as well."""
    with pytest.raises(BaseException) as caught:
        function(*args)
    told = note_of(caught.value, __file__, **more)
    if line is not None:
        assert told.place == f"{__file__}:{function.__code__.co_firstlineno + line}", told
    return told


def test_plain_python():
    def load():
        config = {"lr": 0.1}
        return config["epochs"]

    told = note(load, line=2)
    assert told.message == "KeyError: 'epochs'"
    assert told.trace[-1].endswith('  return config["epochs"]')
    assert (told.exit_code, told.hint, told.is_echo) == (1, "", False)


def test_one_of_ours_in_a_function_of_tensorflow_keeps_its_hint():
    def step(x):
        raise UsageError("not like that", hint="like that (or this)")

    def run():
        tf.function(step)(tf.ones(3))

    told = note(run)
    assert (told.message, told.hint) == ("not like that", "like that (or this)")
    assert told.place == f"{__file__}:{step.__code__.co_firstlineno + 1}"


def test_inside_autograph():
    def step(x):
        if tf.reduce_sum(x) > 0:
            x = x * undefined_name  # noqa: F821
        return x

    def run():
        tf.function(step)(tf.ones(3))

    told = note(run)
    assert told.message == "NameError: name 'undefined_name' is not defined"
    assert told.place == f"{__file__}:{step.__code__.co_firstlineno + 2}"
    assert "tf.function(step)(tf.ones(3))" in told.trace[-2]


def test_functions_in_functions():
    @tf.function
    def inner(x):
        raise ValueError("first line\nsecond line\n\nfourth line")

    @tf.function
    def outer(x):
        return inner(x) + 1

    told = note(lambda: outer(tf.ones(3)))
    assert told.message == "ValueError: first line\nsecond line\n\nfourth line"
    assert told.place == f"{__file__}:{inner.python_function.__code__.co_firstlineno + 2}"


def test_a_shape_in_a_function():
    @tf.function
    def step(x):
        return tf.matmul(x, tf.ones([4, 2]))

    told = note(lambda: step(tf.ones([8, 3])))
    assert told.message.startswith("ValueError: Dimensions must be equal, but are 3 and 4")
    assert told.trace[-1].endswith("return tf.matmul(x, tf.ones([4, 2]))")


class Broken(keras.layers.Layer):
    def call(self, x):
        raise RuntimeError("no such\nlayer")


def test_layers_of_keras():
    told = note(lambda: keras.Sequential([keras.layers.Dense(3), Broken()])(np.ones((2, 2))))
    assert told.message == "RuntimeError: no such\nlayer (in Broken.call())"
    assert told.place.startswith(f"{__file__}:")


def test_fit_of_keras():
    def fit():
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", "mse")
        model.fit(np.ones((8, 5)), np.ones((8, 3)), verbose=0)

    told = note(fit, line=3)
    assert told.message.startswith("ValueError: Input 0")
    assert "expected axis -1 of input shape to have value 4" in told.message
    assert "\x1b" not in told.message
    assert "in user code" not in told.message


def test_a_loss_that_raises():
    def my_loss(a, b):
        raise NotImplementedError("later")

    def fit():
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", my_loss)
        model.fit(np.ones((8, 4)), np.ones((8, 3)), verbose=0)

    told = note(fit)
    assert told.message == "NotImplementedError: later"
    assert told.place == f"{__file__}:{my_loss.__code__.co_firstlineno + 1}"


def test_a_session_names_the_node():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.name_scope("step_0_0/replica_1/embedding"):
            bad = tf.raw_ops.GatherV2(params=tf.ones([10, 4]), indices=tf.compat.v1.placeholder(tf.int32), axis=0)
        told = note(lambda: session.run(bad, {bad.op.inputs[1]: [99]}))
    assert told.message == "InvalidArgumentError: indices[0] = 99 is not in [0, 10) (in `embedding/GatherV2`)"
    assert any(call.endswith("axis=0)") for call in told.trace)


def test_generators_and_python_functions():
    def examples():
        yield 1
        raise OSError("cannot read shard 4")

    def numpy_function(x):
        raise KeyError("label 17")

    def over(dataset):
        for _ in dataset:
            pass

    generated = tf.data.Dataset.from_generator(examples, output_signature=tf.TensorSpec((), tf.int32))
    told = note(over, generated)
    assert told.message == "OSError: cannot read shard 4"
    assert told.place == f"{__file__}:{examples.__code__.co_firstlineno + 2}"
    mapped = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(numpy_function, [x], tf.int64))
    told = note(over, mapped)
    assert told.message == "KeyError: 'label 17'"
    assert told.place == f"{__file__}:{numpy_function.__code__.co_firstlineno + 1}"


def test_our_own_errors_and_echoes():
    def ours():
        raise UsageError("not like that", hint="like this")

    told = note(ours, line=1, exit_code=2)
    assert (told.message, told.hint, told.exit_code) == ("not like that", "like this", 2)

    def echo():
        raise WorkerFailed("another worker is gone")

    assert note(echo).is_echo

    def wrapped():
        try:
            echo()
        except WorkerFailed as error:
            raise RuntimeError("training has failed") from error

    def left():
        try:
            echo()
        except WorkerFailed:
            raise SystemExit(1)  # noqa: B904

    assert note(wrapped).is_echo
    assert note(left).is_echo


def test_full_memory_has_a_hint():
    def fill():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    assert "--strategy PartitionedPS" in note(fill).hint
    assert "--strategy PartitionedPS" in note(lambda: np.ones((2**25, 2**25))).hint


def test_what_does_not_compile(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os\ndef f(:\n    pass\n")
    told = note(lambda: compile(script.read_text(), str(script), "exec"))
    assert told.message == "SyntaxError: invalid syntax"
    assert told.place == f"{script}:2"
    assert told.trace[-1] == f"{script}:2  def f(:"


def test_an_assertion_without_words_is_told_by_its_line():
    def check():
        raise AssertionError

    assert note(check, line=1).message == "AssertionError in `raise AssertionError`"


def test_causes_are_told_in_a_line_each():
    def read():
        try:
            {}["a"]
        except KeyError as error:
            raise ValueError("no `a` in the configuration") from error

    told = note(read, line=4)
    assert told.message == "ValueError: no `a` in the configuration"
    assert told.trace[-1] == f"because of KeyError: 'a' at {__file__}:{read.__code__.co_firstlineno + 2}"


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("not_there_at_all", "the interpreter of the worker"),
        ("keras.not_there", 'pip install "tensorflow-cpu==2.21.*"'),
    ],
)
def test_missing_modules(module, hint):
    assert hint in note(lambda: __import__(module)).hint


def test_long_messages_are_cut():
    def fail():
        raise ValueError("\n".join(map(str, range(100))))

    assert note(fail).message.endswith("\n19\n... and 80 more lines")


def test_the_log_has_the_whole_traceback():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert trace_of(caught.value, __file__).splitlines()[0] == "Traceback (most recent call last):"
