"""Steps that look up in tables, take large arrays from outside, have no batch, or train nothing: as on one device."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from autodist.coordination import Worker, WorkerEnvironment
from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer
from autodist.errors import CaptureError, UsageError
from autodist.runtime._untrained import WholeBatches
from autodist.runtime.data._batch import LocalArray
from autodist.runtime.data._flattening import flatten

from . import untrained
from .programs import assert_same, run_distributed


@pytest.mark.slow  # test_all_batches.py has such steps on two workers as well
@pytest.mark.parametrize("strategy", ["AllReduce(communicator='tcp')", "PartitionedPS"])
def test_two_workers_find_what_one_device_finds(tmp_path, strategy):
    command = [sys.executable, "-m", "autodist", "run", untrained.__file__, "--workers", "2", "--strategy", strategy]
    result = subprocess.run(
        [*command, "--", str(tmp_path / "found")], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stderr
    assert "a step takes no batch: every worker does all of it" in result.stderr
    assert result.stderr.count("has given the last one to no step") == 1
    assert result.stdout.count("of 8.0: a loop over `ad.shard(dataset)` evaluates or predicts batch by batch") == 2
    ranks = [dict(np.load(tmp_path / f"found.{rank}.npz")) for rank in range(2)]
    for name, expected in untrained.plain().items():
        assert np.abs(expected).max() > 0
        if ".rows." in name and name[-1] in "0134":  # each has the rows of its parts, here in batches of 5, 5 and 2
            parts = [np.split(one[name], np.cumsum(cuts)) for one, cuts in zip(ranks, ((3, 3), (2, 2)), strict=True)]
            found = [np.concatenate([part for pair in zip(*parts, strict=True) for part in pair])]
        else:
            found = [one[name] for one in ranks]
        for one in found:
            np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_replicas_of_one_worker_find_the_same():
    def program(scope):
        with scope() as opened:
            ad = opened or untrained.Plain
            return [untrained.outside(ad), untrained.without_batch(ad)]

    assert_same(program)


def test_a_table_is_one_in_control_flow_as_well():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 0.5)

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([2]))

            @tf.function
            def step(words):
                with tf.GradientTape() as tape:
                    factor = tf.cond(
                        w[0] > 0.5, lambda: table.lookup(words), lambda: tf.zeros_like(table.lookup(words))
                    )
                    loss = tf.reduce_mean(factor[:, None] * w) + tf.reduce_mean(w * tf.cast(table.size(), tf.float32))
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            losses = [step(tf.constant(words)) for words in (["a", "b", "x"], ["b", "b", "a"])]
        return losses, w.numpy()

    assert_same(program)


def stepping(table, change):
    """A program whose step looks up and changes a table."""

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([2]))

            @tf.function
            def step(keys):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(table.lookup(keys)[:, None] * w)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                if change == "in the step":
                    table.insert(keys, tf.cast(keys, tf.float32))
                return loss

            step(tf.constant([1, 2], tf.int64))
            if change == "between steps":
                table.insert(tf.constant([1], tf.int64), tf.constant([7.0]))
            step(tf.constant([1, 2], tf.int64))

    return program


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ("in the step", CaptureError, "the step changes a lookup table: op"),
        ("between steps", UsageError, "has changed"),
    ],
)
@pytest.mark.parametrize("kind", ["mutable", "dense"])
def test_a_table_that_changes_is_refused(kind, change, error, text):
    if kind == "mutable":
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    else:
        table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, empty_key=-1, deleted_key=-2)
    table.insert(tf.constant([1], tf.int64), tf.constant([2.0]))
    with pytest.raises(error, match=text) as caught:
        run_distributed(stepping(table, change))
    assert "tf.Variable" in caught.value.hint
    if change == "in the step":
        assert Path(__file__).name in caught.value.message


def test_a_function_that_trains_nothing_may_use_what_no_step_may():
    writes = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    iterator = iter(tf.data.Dataset.range(9))

    def program(scope):
        with scope():

            @tf.function
            def note(x):
                writes.insert(tf.cast(x, tf.int64), tf.cast(x, tf.int64))
                return next(iterator) + writes.size()

            return int(note(np.arange(4.0)))

    assert run_distributed(program) == 4


def test_layers_with_a_vocabulary():
    import keras

    def program(scope):
        with scope():
            vectors = keras.layers.TextVectorization(
                max_tokens=9, output_sequence_length=4, vocabulary=["red", "green", "blue"]
            )
            model = keras.Sequential(
                [keras.Input((), dtype="string"), vectors, keras.layers.Embedding(9, 3), keras.layers.Flatten()]
            )
            lookup = keras.Sequential(
                [keras.Input((), dtype="string"), keras.layers.StringLookup(vocabulary=["red", "blue"]),
                 keras.layers.Embedding(4, 12)]
            )  # fmt: skip
            word = keras.Input((), dtype="string")
            whole = keras.Model(word, keras.layers.Dense(1)(model(word) + lookup(word)))
            whole.compile(keras.optimizers.SGD(0.1), "mse")
            words = tf.constant(["red", "green blue", "blue", "red red x", "y", "blue green", "red"])
            history = whole.fit(
                tf.data.Dataset.from_tensor_slices((words, np.arange(7.0))).batch(4), epochs=2, verbose=0, shuffle=False
            )
        return history.history["loss"], whole.get_weights()

    assert_same(program)


def confusion(values, labels):
    """Needs the number of rows in Python, and returns 10 of them whatever that is."""
    rows = int(values.shape[0])
    found = tf.math.confusion_matrix(labels, tf.cast(tf.round(values[:, 0]), tf.int32), 10)
    return found, values * rows, tf.reduce_sum(values)


def confusion_of_ten(values, labels):
    assert values.shape[0] == 10
    return confusion(values, labels)


def on_two_workers(function, *arrays):
    """What each of two workers finds that have the halves of the arrays, in threads of this process."""
    with CoordinatorServer(world_size=2, token="test") as server:

        def run(rank):
            client = CoordinatorClient(server.address, server.port, "test", rank)
            parts = tuple(np.array_split(array, 2)[rank].view(LocalArray) for array in arrays)
            batches = WholeBatches(Worker(WorkerEnvironment(rank=rank, world_size=2), client), "test")
            return batches.run(function, flatten(parts, {}))

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(run, range(2)))


@pytest.mark.parametrize("rows", [10, 7])
def test_what_has_as_many_rows_as_the_batch_by_chance_stays_whole(rows, caplog):
    values, labels = np.arange(rows, dtype="float32")[:, None], np.arange(rows, dtype="int32")
    expected = [part.numpy() for part in confusion(tf.constant(values), labels)]
    with caplog.at_level("WARNING", "autodist"):
        found = on_two_workers(confusion, values, labels)
    for one in found:
        np.testing.assert_array_equal(one[0], expected[0])
        np.testing.assert_array_equal(one[2], expected[2])
    np.testing.assert_array_equal(np.concatenate([one[1] for one in found]), expected[1])
    assert not [record for record in caplog.records if record.name == "autodist"]


def test_what_can_be_traced_for_one_number_of_rows_alone_is_told(caplog):
    values, labels = np.arange(10, dtype="float32")[:, None], np.arange(10, dtype="int32")
    with caplog.at_level("WARNING", "autodist"):
        found = on_two_workers(confusion_of_ten, values, labels)
    assert [len(one[0]) for one in found] == [5, 5]
    [said] = [record.getMessage() for record in caplog.records if record.name == "autodist"]
    assert "`confusion_of_ten` can't be traced for another number of rows than 10" in said
