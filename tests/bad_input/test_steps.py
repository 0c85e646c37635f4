"""Wrong or unusual input that one process shows: a clear error, or the right behaviour."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError, SpecError, StrategyError, UsageError
from tests.runtime.programs import (
    TWO,
    adam,
    assert_same,
    batches,
    compiled_model,
    data,
    everything,
    make_model,
    make_step,
    run_distributed,
    run_plain,
)

FOUR = {"spec": autodist.ResourceSpec.local(cpus=4)}


def refused(error, program, **options):
    """The error that a program ends with when it is distributed; it says what to do."""
    with pytest.raises(error) as raised:
        run_distributed(program, **options)
    assert raised.value.hint
    assert raised.value.exit_code == 2
    return raised.value.message


def stepping(make, calls=None):
    """A program that calls the step that `make(model, optimizer)` defines."""

    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            step = make(model, optimizer)
            results = [step(x, y) for x, y in (calls or batches(2))]
        return results, everything(model, optimizer)

    return program


def test_unknown_strategy():
    assert "PSLoadBalancin" in refused(StrategyError, lambda scope: scope().__enter__(), strategy="PSLoadBalancin")


def test_spec_that_does_not_exist():
    assert "nowhere.yml" in refused(SpecError, stepping(make_step), spec="nowhere.yml")


def test_spec_of_several_workers_under_plain_python():
    spec = autodist.ResourceSpec.local(workers=2)
    with pytest.raises(UsageError, match="2 workers") as raised:
        autodist.AutoDist(spec)
    assert "autodist run" in raised.value.hint


def test_unknown_conventions_are_all_named():
    with pytest.raises(
        UsageError, match=r"'globl'.*'global', 'local'.*'average'.*'mean', 'sum'.*'replca'.*'synchronized'"
    ):
        autodist.AutoDist(batch="globl", gradient_reduction="average", batch_norm="replca")


def returning(value):
    def make(model, optimizer):
        inner = make_step(model, optimizer).python_function

        @tf.function
        def step(x, y):
            return value(inner(x, y))

        return step

    return stepping(make)


@pytest.mark.parametrize(
    "value", [lambda loss: object(), lambda loss: (k for k in range(3)), lambda loss: [loss, object()]]
)
def test_step_that_returns_no_tensor(value):
    assert "returns something that is not a tensor" in refused(CaptureError, returning(value))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda loss: None, marks=pytest.mark.slow),
        lambda loss: {"loss": loss, "nothing": None, "nested": (loss * 2, [3, 4.5])},
        lambda loss: (),
        pytest.param(lambda loss: 7, marks=pytest.mark.slow),
        pytest.param(lambda loss: True, marks=pytest.mark.slow),
        pytest.param(lambda loss: np.float32(1.5), marks=pytest.mark.slow),
        lambda loss: tf.IndexedSlices(loss[None], tf.constant([0])),
    ],
)
def test_step_that_returns_numbers_and_nests(value):
    expected, found = run_plain(returning(value)), run_distributed(returning(value))
    tf.nest.assert_same_structure(expected, found, expand_composites=True)
    flat = [tf.nest.flatten(result, expand_composites=True) for result in (expected, found)]
    for one, other in zip(*flat, strict=True):
        assert type(one) is type(other)
        if one is not None:
            np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_variable_without_gradient():
    def make(model, optimizer):
        unused = tf.Variable(3.0)
        model.unused = unused

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            variables = [*model.trainable_variables[:-1], model.trainable_variables[-1]]
            gradients = [*tape.gradient(loss, variables[:-1]), None]
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return loss

        return step

    assert_same(stepping(make))


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_unconnected_layer():
    def make(model, optimizer):
        side = keras.layers.Dense(2)
        side.build((None, 4))

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            variables = [*model.trainable_variables, *side.trainable_variables]
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss, side.kernel + 0.0

        return step

    assert_same(stepping(make))


def test_step_without_gradient_is_an_ordinary_function():
    def program(scope):
        with scope():
            counter = tf.Variable(0)

            @tf.function
            def count(x):
                counter.assign_add(tf.shape(x)[0])
                return counter.read_value()

            seen = [count(np.ones((k, 2))) for k in range(1, 4)]
        return seen, counter.numpy()

    assert_same(program)


def test_ad_function_without_gradient():
    def program(scope):
        total = tf.Variable(1.0)
        with scope() as opened:
            function = tf.function if opened is None else opened.function
            found = [
                function(lambda x: total.assign_add(tf.reduce_sum(x)))(np.ones((4, 2), "float32")) for _ in range(2)
            ]
        return found, total.numpy()

    assert_same(program)


@pytest.mark.parametrize(
    "size", [1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)]
)
def test_batch_smaller_than_the_number_of_replicas(size):
    assert_same(stepping(make_step, batches(3, size)), **FOUR)


def test_training_goes_on_after_a_refused_batch():
    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            step = make_step(model, optimizer)
            for x, y in batches(2):
                step(x, y)
                with pytest.raises(UsageError):
                    step(x, y[:3])
        return everything(model, optimizer)

    run_distributed(program)


def test_arguments_that_differ_in_dim_0():
    calls = [(data()[0][:6], data()[1][:4])]
    message = refused(CaptureError, stepping(make_step, calls))
    assert "the 4 rows of argument 1, which is not part of the batch" in message


def test_no_batch_at_all():
    def program(scope):
        with scope():
            w = tf.Variable(1.0)

            @tf.function
            def step():
                with tf.GradientTape() as tape:
                    loss = w * w
                w.assign_sub(0.1 * tape.gradient(loss, w))

            step()
        return 1.0, w.numpy()

    assert_same(program)


def test_rows_of_a_gradient_as_a_batch():
    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([160]))

            @tf.function
            def step(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(w)
                w.assign_sub(tape.gradient(loss, w))

            step(tf.IndexedSlices(data()[0], tf.range(len(data()[0]))))

    assert "dense, ragged or sparse tensors" in refused(UsageError, program)


def test_scopes_one_after_another_and_nested():
    def program(scope):
        found = []
        for _ in range(2):
            with scope():
                model, optimizer = make_model(), adam()
                step = make_step(model, optimizer)
                for x, y in batches(2):
                    step(x, y)
            found.append(everything(model, optimizer))
        return found

    assert_same(program, strategy="PSLoadBalancing")

    def nested(scope):
        with scope(), scope():
            pass

    assert "inside another scope" in refused(UsageError, nested)
    assert_same(program, strategy="AllReduce")  # the refused one has left nothing behind


def test_step_called_outside_of_its_scope():
    ad, other = autodist.AutoDist(**TWO), autodist.AutoDist(**TWO)
    step = ad.function(lambda x: x)
    anywhere = autodist.function(lambda x: x)
    for function, inside, text in [(step, None, "its scope"), (step, other, "its scope"), (anywhere, None, "a scope")]:
        scope = contextlib.nullcontext() if inside is None else inside.scope()
        with scope, pytest.raises(UsageError, match=f"outside of {text}") as raised:
            function(1)
        assert "scope()" in raised.value.hint


@pytest.mark.parametrize("optimizer", [lambda: adam(), lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1)])
def test_eager_optimizer(optimizer):
    def program(scope):
        with scope():
            w = tf.Variable([1.0, 2.0])
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(w * w)
            optimizer().apply_gradients([(tape.gradient(loss, w), w)])
        return w.numpy()

    assert_same(program)  # one worker has all replicas, and their weights
    assert_same(program, spec=autodist.ResourceSpec.local(cpus=1))


def test_run_eagerly_in_compile():
    def program(scope):
        with scope():
            compiled_model(run_eagerly=True).fit(*data(), verbose=0)

    assert "run_eagerly=True" in refused(CaptureError, program)


@pytest.mark.parametrize("is_sharded", [False, True])
def test_iterator_passed_to_a_step(is_sharded):
    def program(scope):
        with scope() as ad:
            w = tf.Variable(tf.ones([160]))

            @tf.function
            def step(iterator):
                x = next(iterator)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(x * w)
                w.assign_sub(tape.gradient(loss, w))

            dataset = tf.data.Dataset.from_tensor_slices(data()[0]).batch(4)
            step(iter(ad.shard(dataset) if is_sharded else dataset))

    assert ("an iterator over a sharded dataset" if is_sharded else "Iterator") in refused(CaptureError, program)


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (lambda: [1, 2], "list"),
        (lambda: np.ones((3, 2)), "ndarray"),
        (lambda: tf.data.Dataset.range(5), "must be batches"),
        (lambda: tf.data.Dataset.range(6).window(2), "steps take dense, ragged and sparse tensors"),
    ],
)
def test_shard_of_what_is_no_dataset_of_batches(dataset, text):
    with pytest.raises(UsageError, match=text) as raised:
        autodist.AutoDist(**TWO).shard(dataset())
    assert "batch" in raised.value.hint


def test_methods_signatures_and_keywords():
    class Trainer:
        def __init__(self):
            self.model, self.optimizer = make_model(), adam()

        @tf.function
        def step(self, x, *, y, scale=1.0):
            with tf.GradientTape() as tape:
                loss = scale * tf.reduce_mean(tf.square(self.model(x) - y))
            variables = self.model.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

    def program(scope):
        with scope():
            trainer = Trainer()
            losses = [trainer.step(x, y=y, scale=2.0) for x, y in batches(3)]
            inner = make_step(trainer.model, trainer.optimizer).python_function
            signature = [tf.TensorSpec([None, 160]), tf.TensorSpec([None, 1])]
            declared = tf.function(inner, input_signature=signature)
            losses += [declared(x.astype("float64"), y.tolist()) for x, y in batches(2)]
        return losses, everything(trainer.model, trainer.optimizer)

    assert_same(program)


def test_objects_without_hash_as_arguments():
    def make(model, optimizer):
        inner = make_step(model, optimizer).python_function

        @tf.function
        def step(x, y, options):
            return inner(x, y) * len(options)

        return lambda x, y: step(x, y, {"no", "hash"})

    assert len(run_distributed(stepping(make))[0]) == 2
