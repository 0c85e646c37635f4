"""Values that leave the scope: saved in it, looked at after it, or after an error in it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist

from .programs import (
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


def test_checkpoint_saved_and_restored_inside(tmp_path):
    def program(scope):
        where = str(tmp_path / scope.__name__.strip("<>"))
        with scope():
            model, optimizer = make_model(), adam()
            step = make_step(model, optimizer)
            step(*batches()[0])
            checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
            path = checkpoint.save(where)
            for x, y in batches()[1:4]:
                step(x, y)
            checkpoint.restore(path).assert_consumed()
            restored = everything(model, optimizer)
            for x, y in batches()[1:3]:
                step(x, y)
        return restored, everything(model, optimizer)

    assert_same(program)


def test_weights_saved_and_loaded_inside(tmp_path):
    def program(scope):
        where = str(tmp_path / f"{scope.__name__.strip('<>')}.weights.h5")
        with scope():
            model, optimizer = make_model(), keras.optimizers.SGD(0.01, momentum=0.9)
            step = make_step(model, optimizer)
            step(*batches()[0])
            model.save_weights(where)
            step(*batches()[1])
            model.load_weights(where)
            step(*batches()[2])
        return everything(model, optimizer)

    assert_same(program)


def test_model_saved_inside_and_after(tmp_path):
    def program(scope):
        inside, after = (
            str(tmp_path / f"{scope.__name__.strip('<>')}1.keras"),
            str(tmp_path / f"{scope.__name__.strip('<>')}2.keras"),
        )
        with scope():
            model = compiled_model()
            model.fit(*data(), batch_size=10, epochs=1, verbose=0, shuffle=False)
            model.save(inside)
            model.export(str(tmp_path / f"{scope.__name__.strip('<>')}_exported"), verbose=False)
            model.fit(*data(), batch_size=10, epochs=1, verbose=0, shuffle=False)
        model.save(after)
        exported = tf.saved_model.load(str(tmp_path / f"{scope.__name__.strip('<>')}_exported"))
        loaded = [keras.models.load_model(path) for path in (inside, after)]
        return [everything(m) for m in loaded], exported.serve(data()[0][:4])

    assert_same(program)


def test_values_after_the_scope_and_in_it_again():
    def program(scope):
        seen = []
        opened = scope()
        with opened:
            model, optimizer = make_model(), adam()
            step = make_step(model, optimizer)
            step(*batches()[0])
        seen.append(everything(model, optimizer))
        model.layers[0].kernel.assign(model.layers[0].kernel * 0.5)
        with scope():
            step(*batches()[1])
            seen.append(model.get_weights())
        return seen, everything(model, optimizer)

    assert_same(program)


def test_one_autodist_opened_twice():
    ad = autodist.AutoDist(**TWO)

    def program(scope):
        model, optimizer = make_model(), adam()
        step = make_step(model, optimizer)
        for k in range(2):
            with scope():
                step(*batches()[k])
            model.layers[0].kernel.assign_add(tf.ones([160, 160]) * 0.01)
        return everything(model, optimizer)

    keras.utils.set_random_seed(7)
    found = program(ad.scope)
    for one, other in zip(run_plain(program), found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_values_after_an_error_in_the_scope(error):
    kept = {}

    def program(scope):
        try:
            with scope():
                model, optimizer = make_model(), adam()
                kept[scope] = model, optimizer
                step = make_step(model, optimizer)
                for x, y in batches()[:3]:
                    step(x, y)
                raise error("here")
        except error:
            pass
        return everything(model, optimizer)

    assert_same(program)


def test_error_in_a_step_is_the_users_and_values_come_back():
    def program(scope):
        try:
            with scope():
                model, optimizer = make_model(), keras.optimizers.SGD(0.01)

                @tf.function
                def step(x, y):
                    tf.debugging.assert_less(tf.reduce_max(tf.abs(y)), 100.0)
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(model(x) - y))
                    gradients = tape.gradient(loss, model.trainable_variables)
                    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                    return loss

                x, y = batches()[0]
                step(x, y)
                step(x, y + 1000.0)
        except tf.errors.InvalidArgumentError:
            pass
        else:
            raise AssertionError("the assertion did not hold, and nothing was raised")
        return model.get_weights()[0].shape, everything(model, optimizer)[0].shape

    assert run_plain(program) == run_distributed(program)
