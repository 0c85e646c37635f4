"""Who reads which elements: every one of them once, whatever the pipeline and the numbers."""

import collections
import itertools
import logging
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import UsageError
from autodist.runtime.data import LocalArray, WorkerShares, shard_dataset
from tests.quick import combinations

CLUSTERS = [(1,), (1, 1), (1, 1, 1), (2, 1), (1, 0, 2)]
SIZES = (7, 1, 12, 3, 5)


@pytest.fixture(autouse=True)
def _no_seed():
    """Whatever seed another test has set."""
    tf.random.set_seed(None)


def write(directory, sizes=SIZES):
    """Files of records `f-k`, and their names."""
    names = []
    for number, size in enumerate(sizes):
        names.append(str(directory / f"{number}.records"))
        with tf.io.TFRecordWriter(names[-1]) as writer:
            for k in range(size):
                writer.write(f"{number}-{k}".encode())
    return names


def text(directory):
    names = []
    for number, size in enumerate(SIZES):
        names.append(str(directory / f"{number}.txt"))
        (directory / f"{number}.txt").write_text("".join(f"{number}-{k:02}\n" for k in range(size)))
    return names


PIPELINES = {
    "records": lambda d: tf.data.TFRecordDataset(write(d)),
    "records in parallel": lambda d: tf.data.TFRecordDataset(write(d), num_parallel_reads=2),
    "listed": lambda d: (write(d), tf.data.Dataset.list_files(f"{d}/*.records"))[1].interleave(
        tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2
    ),
    "flat": lambda d: tf.data.Dataset.from_tensor_slices(write(d)).shuffle(5).flat_map(tf.data.TFRecordDataset),
    "text": lambda d: tf.data.TextLineDataset(text(d)),
    "fixed length": lambda d: tf.data.FixedLengthRecordDataset(text(d), 5),
}


def workers(dataset, cluster, by):
    """What each worker gets: its batches."""
    shards = [shard_dataset(dataset, WorkerShares(cluster, rank), by=by) for rank in range(len(cluster))]
    return shards, [[batch.tolist() for batch in shard] for shard in shards]


def elements(dataset):
    return collections.Counter(itertools.chain.from_iterable(batch.tolist() for batch in dataset.as_numpy_iterator()))


def test_only_the_allowed_ways_to_shard_are_taken():
    dataset = tf.data.Dataset.range(10).batch(2)
    with pytest.raises(UsageError, match="`by` is 'row', allowed: 'auto', 'batch', 'element', 'file'"):
        shard_dataset(dataset, WorkerShares((1, 1), 0), by="row")
    sharded = shard_dataset(dataset, WorkerShares((1, 1), 0), by="element")
    assert shard_dataset(sharded, WorkerShares((1, 1), 0)) is sharded
    with pytest.raises(UsageError, match="sharded by element already"):
        shard_dataset(sharded, WorkerShares((1, 1), 0), by="file")


@pytest.mark.parametrize("by", ["auto", "batch"])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_rows_of_batches_are_those_of_one_device(cluster, by):
    dataset = tf.data.Dataset.range(23).shuffle(23, seed=1, reshuffle_each_iteration=False).batch(5)
    _, found = workers(dataset, cluster, by)
    joined = [list(itertools.chain(*parts)) for parts in zip(*found, strict=True)]
    assert joined == [batch.tolist() for batch in dataset.as_numpy_iterator()]


@combinations(kind=PIPELINES, cluster=CLUSTERS)
def test_every_element_of_files_once_in_every_epoch(kind, cluster, tmp_path):
    dataset = PIPELINES[kind](tmp_path).map(tf.strings.upper).shuffle(10).batch(6).prefetch(1)
    for by in ("file", "element") if "shuffle" not in kind else ("file",):
        if by == "element" and kind in ("listed", "flat"):
            continue  # the order of their files is shuffled without a seed
        shards, found = workers(dataset, cluster, by)
        for _epoch in range(2):
            seen = collections.Counter(itertools.chain(*(itertools.chain(*batches) for batches in found)))
            assert seen == elements(dataset)
            assert set(seen.values()) == {1}
            assert len(seen) == sum(SIZES)
            found = [[batch.tolist() for batch in shard] for shard in shards]
        if len(cluster) > 1:
            assert {shard.by for shard in shards} == {by}
            for batches, rank in zip(found, range(len(cluster)), strict=True):
                start, stop = WorkerShares(cluster, rank).rows(6)
                assert all(len(batch) <= stop - start for batch in batches)
                assert all(len(batch) == stop - start for batch in batches[:-1])


@pytest.mark.parametrize("cluster", [(1, 1), (1, 1, 1), (1, 0, 2)])
def test_files_of_other_workers_are_not_opened(cluster, tmp_path):
    """Each worker goes through its data while all files but its own are gone."""
    for kind in ("records", "listed", "flat"):
        directory = tmp_path / kind
        directory.mkdir()
        dataset = PIPELINES[kind](directory).batch(6)
        shards, found = workers(dataset, cluster, "file")
        kept = {path: path.read_bytes() for path in directory.iterdir()}
        for shard, batches in zip(shards, found, strict=True):
            own = {element.split(b"-")[0].decode() for batch in batches for element in batch}
            if "listed" not in kind:
                for path in set(kept) - {directory / f"{number}.records" for number in own}:
                    path.unlink()
                assert sorted(itertools.chain(*(b.tolist() for b in shard))) == sorted(itertools.chain(*batches))
            for path, content in kept.items():
                path.write_bytes(content)
        names = [{e.split(b"-")[0] for batch in batches for e in batch} for batches in found]
        assert sum(map(len, names)) == len(set().union(*names)) == len(SIZES)


def test_too_few_files_are_sharded_by_element_and_this_is_said_once(tmp_path, caplog):
    dataset = tf.data.TFRecordDataset(write(tmp_path, (7, 4)), num_parallel_reads=2).batch(5)
    with caplog.at_level(logging.INFO, "autodist"):
        shards, found = workers(dataset, (1, 1, 1), "file")
    assert [shard.by for shard in shards] == ["element"] * 3
    assert collections.Counter(itertools.chain(*itertools.chain(*found))) == elements(dataset)
    assert [r.message for r in caplog.records] == [
        "the dataset has 2 files for 3 workers: it is sharded by element instead of by file"
    ]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("count", [0, 1, 4, 23, 30])
def test_elements_without_a_shuffle_make_the_global_batches_of_one_device(count, cluster):
    dataset = tf.data.Dataset.range(count).map(lambda k: k * 10).batch(5)
    _, found = workers(dataset, cluster, "element")
    joined = [list(itertools.chain(*parts)) for parts in itertools.zip_longest(*found, fillvalue=[])]
    assert joined == [batch.tolist() for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("cluster", [(1, 1), (1, 1, 1)])
def test_operations_are_built_again(cluster):
    calls = collections.Counter()

    def count(k):
        calls[int(k)] += 1
        return k

    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(40, dtype=tf.int64), tf.range(40, dtype=tf.int64) * 2), -1
    )

    def dataset():
        source = tf.data.Dataset.range(40).map(lambda k: tf.ensure_shape(tf.py_function(count, [k], tf.int64), []))
        source = source.filter(lambda k: k % 5 != 0).cache().map(table.lookup, num_parallel_calls=2).shuffle(50)
        source = source.map(lambda k: {"x": tf.fill([k % 3 + 1], k), "y": k}, num_parallel_calls=tf.data.AUTOTUNE)
        return source.repeat(2).padded_batch(7).map(lambda b: {**b, "z": b["y"] + 1}).prefetch(2)

    shards = [shard_dataset(dataset(), WorkerShares(cluster, rank), by="element") for rank in range(len(cluster))]
    batches = [batch for shard in shards for batch in shard]
    assert all(isinstance(batch["x"], LocalArray) for batch in batches)
    seen = collections.Counter(np.concatenate([batch["y"] for batch in batches]).tolist())
    assert seen == {2 * k: 2 for k in range(40) if k % 5}
    assert all((batch["z"] == batch["y"] + 1).all() and (batch["x"][:, 0] == batch["y"]).all() for batch in batches)
    assert set(calls.values()) == {1}  # what is done with an element is done by one worker


def test_incomplete_batches_are_dropped_if_they_were():
    dataset = tf.data.Dataset.range(23).batch(6, drop_remainder=True)
    _, found = workers(dataset, (1, 1), "element")
    assert [len(batch) for batches in found for batch in batches] == [3] * len(found[0]) + [3] * len(found[1])
    assert sum(map(len, itertools.chain(*found))) > 23 - 6


@pytest.mark.parametrize(
    ("dataset", "by", "message"),
    [
        (lambda: tf.data.Dataset.range(9).batch(4), "file", "is made of a RangeDataset, not of files"),
        (lambda: tf.data.Dataset.range(9).batch(2), "element", "too few for the 3 replicas"),
        (lambda: tf.data.Dataset.range(9).batch(4).take(1), "element", "a TakeDataset follows them"),
        (lambda: tf.data.Dataset.range(9).batch(3, drop_remainder=True).map(abs), "element", "of a fixed size"),
        (lambda: tf.data.Dataset.range(9).shuffle(9).batch(3), "batch", "shuffled without a seed"),
        (lambda: tf.data.Dataset.range(9).shuffle(9).batch(3), "auto", "shuffled without a seed"),
        (lambda: tf.data.Dataset.range(9).shuffle(9).take(5).batch(3), "element", "shuffled without a seed"),
    ],
)
def test_what_can_not_be_sharded(dataset, by, message):
    with pytest.raises(UsageError, match=message):
        shard_dataset(dataset(), WorkerShares((2, 1), 0), by=by)


def in_order_of_readiness(number):
    return tf.data.Dataset.range(5).map(lambda k: k + 5 * number)


def test_an_option_to_take_what_is_ready_is_put_aside():
    options = tf.data.Options()
    options.deterministic = False
    dataset = tf.data.Dataset.range(30).map(tf.abs, num_parallel_calls=4).batch(4).with_options(options)
    for by in ("batch", "element"):
        shards, found = workers(dataset, (1, 1), by)
        assert all(shard.dataset.options().deterministic for shard in shards)
        assert collections.Counter(itertools.chain(*itertools.chain(*found))) == dict.fromkeys(range(30), 1)


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        (lambda: tf.data.Dataset.range(30).map(tf.abs, num_parallel_calls=2, deterministic=False), ("element",)),
        (
            lambda: tf.data.Dataset.range(6).interleave(
                in_order_of_readiness, cycle_length=2, num_parallel_calls=2, deterministic=False
            ),
            (),
        ),
    ],
)
def test_operations_that_give_what_is_ready(source, allowed):
    for by in ("batch", "element"):
        if by in allowed:
            _, found = workers(source().batch(4), (1, 1), by)
            assert collections.Counter(itertools.chain(*itertools.chain(*found))) == dict.fromkeys(range(30), 1)
            continue
        with pytest.raises(UsageError, match=r"Dataset has `deterministic=False`.*would be lost"):
            shard_dataset(source().batch(4), WorkerShares((1, 1), 0), by=by)


def test_datasets_of_the_service_are_refused():
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    worker = service.WorkerServer(service.WorkerConfig(dispatcher.target.partition("://")[2]))
    dataset = tf.data.Dataset.range(9).apply(service.distribute("parallel_epochs", dispatcher.target)).batch(3)
    with pytest.raises(UsageError, match=r"of tf\.data's service"):
        shard_dataset(dataset, WorkerShares((1, 1), 0))
    worker._stop()
    dispatcher._stop()


@pytest.mark.slow
def test_datasets_that_keras_makes(tmp_path):
    """Of directories of pictures and texts, and of a series."""
    for label in "ab":
        for kind in ("pictures", "texts"):
            (tmp_path / kind / label).mkdir(parents=True)
        for k in range(7):
            picture = tf.io.encode_png(np.full((4, 4, 3), k + 10 * (label == "b"), np.uint8))
            tf.io.write_file(str(tmp_path / "pictures" / label / f"{k}.png"), picture)
            (tmp_path / "texts" / label / f"{k}.txt").write_text(f"{label}{k}")
    series = np.arange(50)
    made = {
        "pictures": lambda: keras.utils.image_dataset_from_directory(
            tmp_path / "pictures", image_size=(4, 4), batch_size=4, seed=1, verbose=False
        ),
        "texts": lambda: keras.utils.text_dataset_from_directory(
            tmp_path / "texts", batch_size=4, seed=1, verbose=False
        ),
        "series": lambda: keras.utils.timeseries_dataset_from_array(
            series, series[4:], sequence_length=4, batch_size=4, shuffle=True, seed=1
        ),
    }
    for name, make in made.items():
        for by in ("batch", "element"):
            shards = [shard_dataset(make(), WorkerShares((1, 1, 1), rank), by=by) for rank in range(3)]
            for _epoch in range(2):
                seen = collections.Counter(row.tobytes() for s in shards for x, _ in s for row in np.asarray(x, str))
                one = collections.Counter(row.tobytes() for x, _ in make() for row in np.asarray(x, str))
                assert {row.strip(b"\0") for row in seen} == {row.strip(b"\0") for row in one}, (name, by)
                assert sum(seen.values()) == sum(one.values())


def test_elements_are_taken_before_they_are_dealt_out():
    """`take` counts the elements of all workers."""
    dataset = tf.data.Dataset.range(100).take(11).shuffle(20).batch(4)
    _, found = workers(dataset, (1, 1), "element")
    assert sorted(itertools.chain(*itertools.chain(*found))) == list(range(11))


def test_batches_are_made_ahead():
    """The next ones are made while the program has not asked for them, in the same order and to the same end."""
    made = []

    def note(k):
        made.append(int(k))
        return k

    dataset = tf.data.Dataset.range(10).batch(4).map(lambda b: tf.py_function(lambda b: note(b[0]), [b], tf.int64))
    dataset = dataset.map(lambda k: tf.reshape(k, [1]))
    shard = shard_dataset(dataset, WorkerShares((1,), 0))
    batches = iter(shard)
    assert next(batches) == 0
    deadline = time.monotonic() + 60
    while len(made) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert made[:2] == [0, 4]
    assert [int(batch[0]) for batch in batches] == [4, 8]


def test_what_reads_variables_or_is_ahead_already_is_left_alone():
    rate, table = tf.Variable(2.0), tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), -1)
    source = tf.data.Dataset.from_tensor_slices(np.ones([6, 2], np.float32)).batch(2)
    for dataset in (source.prefetch(1), source.map(lambda x: x * rate), source.map(lambda x: x * rate).repeat(2)):
        assert shard_dataset(dataset, WorkerShares((1,), 0)).dataset is dataset
    looked_up = source.map(lambda x: table.lookup(tf.cast(x, tf.int32)))
    assert shard_dataset(looked_up, WorkerShares((1,), 0)).dataset is not looked_up


def test_an_error_of_the_pipeline_comes_where_its_batch_would():
    dataset = tf.data.Dataset.range(6).batch(2)
    batches = iter(shard_dataset(dataset.map(_refuse_from(4)), WorkerShares((1,), 0)))
    assert [list(next(batches)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="five is too much"):
        next(batches)


def _refuse_from(limit):
    def checked(batch):
        with tf.control_dependencies([tf.debugging.assert_less(batch, tf.cast(limit, tf.int64), "five is too much")]):
            return tf.identity(batch)

    return checked
