"""The program's variables and their copies in the session are one value, whatever the program does between steps."""

import copy
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from .programs import (
    adam,
    assert_same,
    batches,
    data,
    everything,
    make_model,
    make_step,
)


def custom_loop(between, optimizer=adam, num_steps=6):
    """A program: a custom loop that does `between(k, model, optimizer)` after every step, and returns what that did."""

    def program(scope):
        seen = []
        with scope():
            model, chosen = make_model(), optimizer()
            step = make_step(model, chosen)
            for k, (x, y) in enumerate(batches(num_steps)):
                seen.append(step(x, y))
                seen.append(between(k, model, chosen))
        return seen, everything(model, chosen)

    return program


@pytest.mark.parametrize("strategy", ["AllReduce", "PSLoadBalancing"])
def test_nothing_between(strategy):
    assert_same(custom_loop(lambda k, model, optimizer: ()), strategy=strategy)


READS = [
    lambda k, model, optimizer: model.layers[0].kernel.numpy(),
    lambda k, model, optimizer: model.get_weights(),
    lambda k, model, optimizer: model(data()[0][:3]).numpy(),
    lambda k, model, optimizer: np.asarray(model.layers[0].kernel.value),
    lambda k, model, optimizer: tf.gather(model.layers[0].kernel, [0, 2]).numpy(),
    lambda k, model, optimizer: model.layers[0].kernel.value.sparse_read([0, 2]).numpy(),
    lambda k, model, optimizer: model.layers[0].kernel.value[1:3, :2].numpy(),
    lambda k, model, optimizer: tf.reduce_max(model.layers[0].kernel * 2.0).numpy() + k,
    lambda k, model, optimizer: tf.matmul(data()[0][:3], model.layers[0].kernel.value).numpy(),
    lambda k, model, optimizer: tf.raw_ops.ReadVariableOp(
        resource=model.layers[0].kernel.value.handle, dtype=tf.float32
    ).numpy(),
    lambda k, model, optimizer: float(model.layers[1].bias.value[0]),
    lambda k, model, optimizer: [v.numpy() for v in optimizer.variables],
    lambda k, model, optimizer: int(optimizer.iterations),
    lambda k, model, optimizer: copy.deepcopy(model.layers[0].kernel.value).numpy(),
    lambda k, model, optimizer: model.predict(data()[0][:4], verbose=0),
    lambda k, model, optimizer: model.layers[0].kernel.numpy() if k % 2 else (),
]


def test_every_read_sees_the_newest_value():
    """Each kind of read is the first access after some step."""
    read_one = custom_loop(lambda k, model, optimizer: READS[k](k, model, optimizer), num_steps=len(READS))
    assert_same(read_one)


def assign_some(k, model, optimizer):
    model.layers[0].kernel.assign(model.layers[0].kernel * 0.5)


def assign_add(k, model, optimizer):
    model.layers[0].kernel.assign_add(tf.ones_like(model.layers[0].kernel) * 0.01)
    model.layers[1].bias.value.assign_sub([0.1])


def assign_slice(k, model, optimizer):
    model.layers[0].kernel.value[0:2].assign(tf.zeros([2, 160]))


def scatter(k, model, optimizer):
    model.layers[0].kernel.value.scatter_nd_add([[0, 1]], [0.5])
    model.layers[0].kernel.value.scatter_sub(tf.IndexedSlices(tf.ones([1, 160]), [3]))


def assign_without_looking(k, model, optimizer):
    model.layers[0].kernel.assign(np.full((160, 160), 0.01 * k, "float32"))


def set_weights(k, model, optimizer):
    model.set_weights([w * 0.9 for w in model.get_weights()])


def set_learning_rate(k, model, optimizer):
    optimizer.learning_rate = 0.01 / (k + 1)


def assign_learning_rate(k, model, optimizer):
    optimizer.learning_rate.assign(0.01 / (k + 1))


def assign_slot(k, model, optimizer):
    optimizer.variables[2].assign(optimizer.variables[2] * 0.5)


def assign_eagerly_and_read(k, model, optimizer):
    model.layers[0].kernel.assign_add(tf.ones([160, 160]) * 0.01)
    return model.layers[0].kernel.numpy(), model(data()[0][:3]).numpy()


CHANGES = [
    assign_some,
    assign_add,
    assign_slice,
    scatter,
    assign_without_looking,
    set_weights,
    set_learning_rate,
    assign_learning_rate,
    assign_slot,
    assign_eagerly_and_read,
]


def test_every_assignment_is_seen_by_the_next_step():
    """Each kind of assignment is the first access after some step."""

    def change_one(k, model, optimizer):
        return CHANGES[k](k, model, optimizer), model.get_weights() if k % 2 else ()

    assert_same(custom_loop(change_one, num_steps=len(CHANGES)))


def evaluating(nested, assigns, signature=None):
    """What a program does between steps: call a traced function that looks at the model, or changes it."""
    functions = {}

    def between(k, model, optimizer):
        if id(model) not in functions:

            def inner(x):
                if assigns:
                    model.layers[0].kernel.assign(model.layers[0].kernel * 0.9)
                return tf.reduce_sum(model(x)) + model.layers[1].bias[0]

            wrapped = tf.function(inner) if nested else inner
            functions[id(model)] = model, tf.function(lambda x: wrapped(x) * 2.0, input_signature=signature)
        return functions[id(model)][1](data()[0][:3]).numpy()

    return between


@pytest.mark.parametrize(
    ("nested", "assigns"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
def test_traced_functions(nested, assigns):
    assert_same(custom_loop(evaluating(nested, assigns)))


def test_concrete_function_called_directly():
    functions = {}

    def between(k, model, optimizer):
        if id(model) not in functions:
            traced = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec([None, 160]))
            functions[id(model)] = model, traced
        return functions[id(model)][1](tf.constant(data()[0][:3])).numpy()

    assert_same(custom_loop(between))


def test_soft_update_of_a_target_network():
    targets = {}

    def between(k, model, optimizer):
        if id(model) not in targets:
            target = keras.models.clone_model(model)
            target.set_weights(model.get_weights())

            @tf.function
            def update():
                for t, v in zip(target.variables, model.variables, strict=True):
                    t.assign(0.9 * t + 0.1 * v)

            targets[id(model)] = model, target, update
        _, target, update = targets[id(model)]
        update()
        return target.get_weights()

    assert_same(custom_loop(between))


def test_v1_variables_and_raw_updates():
    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([160, 160]))

            @tf.function
            def step(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((x @ w) ** 2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            seen = [(step(x), w.numpy()) for x, _ in batches()]
        return seen, w.numpy()

    assert_same(program)


def test_a_model_may_be_cloned_between_steps():
    def between(k, model, optimizer):
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        return clone(data()[0][:2]).numpy()

    assert_same(custom_loop(between))


def test_reads_in_another_thread():
    def program(scope):
        wrong, stop = [], threading.Event()

        with scope():
            model, optimizer = make_model(), keras.optimizers.SGD(0.01)
            step = make_step(model, optimizer)
            step(*batches()[0])

            def look():
                while not stop.is_set():
                    value = model.layers[0].kernel.numpy()
                    output = model(data()[0][:2]).numpy()
                    if value.shape != (160, 160) or not np.isfinite(output).all():
                        wrong.append(value.shape)

            thread = threading.Thread(target=look)
            thread.start()
            for _ in range(10):
                for x, y in batches():
                    step(x, y)
            stop.set()
            thread.join(30)
            assert not thread.is_alive()
        assert not wrong
        return everything(model, optimizer)

    assert_same(program)


def test_what_was_read_stays_as_it_was():
    """Of a variable that no step changes, every read gets the same memory of the session."""

    def program(scope):
        seen, bound = [], []
        with scope():
            model, optimizer = make_model(), adam()
            model.layers[0].trainable = False
            step = make_step(model, optimizer)
            for k, (x, y) in enumerate(batches()):
                bound.append(np.asarray(model.layers[0].kernel.value))
                seen.append(bound[-1].copy())
                if k % 2:
                    model.layers[0].kernel.value.assign_add(tf.ones([160, 160]) * 0.01)
                step(x, y)
        for then, now in zip(seen, bound, strict=True):
            np.testing.assert_array_equal(now, then)
        return seen, everything(model, optimizer)

    assert_same(program)


def test_input_pipeline_that_reads_a_variable():
    def program(scope):
        seen = []
        with scope():
            model, optimizer = make_model(), keras.optimizers.SGD(0.01)
            step = make_step(model, optimizer)
            x, y = data()
            dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
            dataset = dataset.map(lambda x, y: (x, y + 0.1 * tf.reduce_sum(model.layers[0].kernel[0])))
            options = tf.data.Options()
            options.autotune.enabled = False  # else it reads ahead, before a step or after it as it happens
            options.experimental_optimization.inject_prefetch = False
            for x, y in dataset.with_options(options):
                seen.append(np.asarray(y))
                step(x, y)
        return seen, everything(model, optimizer)

    assert_same(program)


def test_a_generator_and_a_discriminator():
    def program(scope):
        with scope():
            make = [make_model(), make_model()]
            optimizers = [adam(), keras.optimizers.SGD(0.01)]

            def trainer(k):
                @tf.function
                def train(x, y):
                    with tf.GradientTape() as tape:
                        one, other = make[0](x), make[1](x)
                        loss = tf.reduce_mean(tf.square(one - y) + tf.square(other + y) + one * other)
                    variables = make[k].trainable_variables
                    optimizers[k].apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
                    return loss

                return train

            first, second = trainer(0), trainer(1)
            losses = [(first(x, y), second(x, y)) for x, y in batches()]
        return losses, everything(make[0], optimizers[0]), everything(make[1], optimizers[1])

    for strategy in ("AllReduce", "PSLoadBalancing"):
        assert_same(program, strategy=strategy)


def test_two_steps_with_one_optimizer_and_shared_variables():
    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            optimizer.build(model.trainable_variables)
            whole = make_step(model, optimizer)

            @tf.function
            def head_only(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.abs(model(x) - y))
                variables = model.layers[1].trainable_variables
                gradients = tape.gradient(loss, variables)
                for variable, gradient in zip(variables, gradients, strict=True):
                    variable.assign_sub(0.1 * gradient)
                return loss

            losses = [(whole(x, y), head_only(x, y)) for x, y in batches()]
        return losses, everything(model, optimizer)

    assert_same(program)


def test_changed_shapes_go_on_with_the_same_state():
    def program(scope):
        with scope():
            embedding = keras.layers.Embedding(50, 8)
            dense = keras.layers.Dense(1)
            model = keras.Sequential([embedding, keras.layers.GlobalAveragePooling1D(), dense])
            model.build((None, None))
            optimizer = adam(0.05)
            step = make_step(model, optimizer)
            random = np.random.default_rng(0)
            losses = []
            for size, length, dtype in [
                (8, 5, "int32"),
                (3, 5, "int32"),
                (8, 9, "int32"),
                (5, 9, "int64"),
                (1, 5, "int32"),
            ]:
                tokens = random.integers(0, 50, (size, length)).astype(dtype)
                losses.append(step(tokens, np.ones((size, 1), "float32")))
        return losses, everything(model, optimizer)

    assert_same(program)
