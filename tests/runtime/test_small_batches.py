"""Batches of fewer images than there are replicas: replicas have parts of each image, and get what one device does."""

import functools
import logging
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import autodist
from autodist.resource_spec import ResourceSpec

from . import small_batches
from .small_batches import compare, data, fitted, segmenter, stepped

CUT = "a batch has fewer rows than there are replicas, so these have parts of "
STRATEGIES = ["AllReduce", "PS", "Tiled(dims=('conv2d*/kernel=3',))", "PartitionedPS", "auto"]


@pytest.fixture
def small_pays(monkeypatch):
    small_batches.cut_small_images(monkeypatch.setattr)


def distributed(run, strategy, replicas, *given, **options):
    with autodist.scope(ResourceSpec.local(cpus=replicas), strategy=strategy, **options):
        return run(*given)


@pytest.mark.parametrize(
    ("strategy", "replicas"),
    [
        pytest.param(strategy, replicas, marks=() if (k + replicas) % 4 == 2 else pytest.mark.slow)
        for k, strategy in enumerate(STRATEGIES)
        for replicas in (2, 3)
        if replicas == 2 or "Tiled" not in strategy
    ],
)
def test_fit_shares_each_image(strategy, replicas, small_pays, caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        found = distributed(fitted, strategy, replicas)
    assert caplog.text.count(CUT) >= 2, (
        "training and evaluation; predictions are large, and all workers want them whole"
    )
    assert "computes nothing" not in caplog.text
    compare(found, fitted())


@pytest.mark.parametrize(("rows", "replicas"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_so_do_steps_of_ones_own(rows, replicas, small_pays, caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        found = distributed(stepped, "AllReduce", replicas, rows, autodist.function)
    assert len(re.findall(rf"{CUT}argument 0 along dim \d, argument 1 along dim \d; hosts send", caplog.text)) == 1
    compare(found, stepped(rows))


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("PSLoadBalancing(sync=False)", {}),
        ("AllReduce", {"batch": "local"}),
        ("AllReduce", {"gradient_reduction": "mean"}),
    ],
    ids=["asynchronous", "own batches", "own losses"],
)
def test_elsewhere_they_share_the_batch(strategy, options, small_pays, caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        distributed(stepped, strategy, 2, 1, autodist.function, **options)
    assert CUT not in caplog.text


def test_programs_see_the_shapes_of_one_device(small_pays, caplog):
    """A dataset leaves the number of rows open. Keras then weights all batches alike in the losses of outputs."""
    import keras

    def tested():
        keras.utils.set_random_seed(0)
        given = keras.Input((12, 10, 2))
        hidden = keras.layers.Conv2D(3, 3, activation="relu")(given)
        outputs = [keras.layers.Conv2D(1, 1, name="a")(hidden), keras.layers.Conv2D(2, 1, name="b")(hidden)]
        model = keras.Model(given, outputs)
        model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5])
        normal = np.random.default_rng(0).normal
        images, *targets = (normal(size=(5, *shape)) for shape in ((12, 10, 2), (10, 8, 1), (10, 8, 2)))
        model.fit(images, targets, 2, 2, verbose=0, shuffle=False)
        return model.evaluate(images, targets, 2, verbose=0, return_dict=True)

    with caplog.at_level(logging.INFO, "autodist"), autodist.scope(ResourceSpec.local(cpus=3)):
        found = tested()
    assert caplog.text.count(CUT) == 4, "training and evaluation, batches of two and of one"
    compare(found, tested())


def test_all_workers_read_whole_batches_of_a_dataset_with_few_rows(small_pays, caplog):
    import keras
    import tensorflow as tf

    def trained():
        keras.utils.set_random_seed(0)
        model, (images, labels) = segmenter(), data(4)
        batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(4, seed=1).batch(1).prefetch(2)
        history = model.fit(batches, epochs=2, verbose=0, shuffle=False, validation_data=batches).history
        return history, model.evaluate(batches, verbose=0), [variable.numpy() for variable in model.variables]

    with caplog.at_level(logging.INFO, "autodist"), autodist.scope(ResourceSpec.local(cpus=2)):
        found = trained()
    assert caplog.text.count(CUT) == 2, "training and evaluation"
    compare(found, trained())


def test_small_images_are_not_cut(caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        distributed(stepped, "AllReduce", 2, 1, autodist.function)
    assert CUT not in caplog.text


def test_tiles_of_weights_in_a_step_for_one_row_only(caplog):
    """In such a step every length is a multiple of the number of rows; a length of weights does not grow with it."""
    weigh = functools.partial(np.mean, axis=(1, 2))  # Keras multiplies them with losses of pixels: for one row alone
    with caplog.at_level(logging.INFO, "autodist"):
        found = distributed(fitted, "Tiled(dims=('conv2d*/kernel=3',))", 2, 1, weigh)
    assert "a step is traced for batches of 1 rows" in caplog.text
    assert CUT not in caplog.text
    compare(found, fitted(1, weigh))


def test_batches_may_be_small_first_and_large_later(small_pays):
    def trained():
        import keras

        keras.utils.set_random_seed(0)
        model, (images, labels) = segmenter(), data(9)
        losses = [float(model.train_on_batch(images[:1], labels[:1])[0])]
        losses += model.fit(images, labels, 4, 2, verbose=0, shuffle=False).history["loss"]
        losses += model.fit(images[:2], labels[:2], 1, 1, verbose=0, shuffle=False).history["loss"]
        return losses, [variable.numpy() for variable in model.variables]

    for strategy in ("PS", "AllReduce"):
        with autodist.scope(ResourceSpec.local(cpus=2), strategy=strategy, batch_norm="synchronized"):
            found = trained()
        compare(found, trained())


@pytest.mark.parametrize(
    ("workers", "strategy", "run", "rows"),
    [
        (3, "PS", "fit", 1),
        pytest.param(3, "AllReduce", "step", 2, marks=pytest.mark.slow),
        pytest.param(2, "Tiled(dims=('conv2d*/kernel=3',))", "fit", 1, marks=pytest.mark.slow),
        pytest.param(4, "auto", "fit", 1, marks=pytest.mark.slow),
        pytest.param(5, "PartitionedPS", "fit", 3, marks=pytest.mark.slow),
        pytest.param(2, "AllReduce(communicator='horovod')", "fit", 1, marks=pytest.mark.slow),
    ],
)
def test_workers_give_each_other_what_lies_around_their_parts(workers, strategy, run, rows, tmp_path):
    command = [sys.executable, "-m", "autodist", "run", small_batches.__file__, "--workers", str(workers)]
    command += ["--strategy", strategy, "--run-dir", str(tmp_path / "run"), "--", run, str(rows), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert CUT in done.stdout + done.stderr
    expected = (fitted if run == "fit" else stepped)(rows)
    for rank in range(workers):
        compare(pickle.loads((tmp_path / f"{rank}.pkl").read_bytes()), expected)
