"""Workers that have different data end before the first wrong update, in every way to train."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.runtime.data import (
    DatasetPasses,
    LocalArray,
    WorkerShares,
    drawn_parts,
    fingerprint_of,
    flatten,
    hashed,
    shard_dataset,
)

SCRIPT = Path(__file__).with_name("unlike_data.py")
WAYS = [
    ("AllReduce(communicator='tcp')", "fit"),
    pytest.param("PSLoadBalancing", "shard", marks=pytest.mark.slow),
    pytest.param("PSLoadBalancing", "by element", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='collective')", "loop", marks=pytest.mark.slow),
    pytest.param("PartitionedPS", "train_on_batch", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='horovod')", "fit on arrays", marks=[pytest.mark.slow, pytest.mark.horovod]),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("strategy", "way"), WAYS)
def test_a_later_batch_differs(strategy, way, tmp_path):
    job = Job(SCRIPT, ResourceSpec.local(workers=2), (way, f"{tmp_path}/"), strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code != 0
    logs = "".join(log.read_text() for log in (tmp_path / "run" / "logs").iterdir())
    assert "worker 1 was given another batch than the chief in step 4" in logs
    assert "sorted(...)" in logs
    steps = [path.read_text() for path in tmp_path.glob("*.steps")]
    assert set(steps) == {"3"}


@pytest.mark.timeout(300)
def test_asynchronous_workers_are_told_when_they_meet(tmp_path):
    arguments = ("shard", f"{tmp_path}/")
    spec = ResourceSpec.local(workers=2)
    job = Job(SCRIPT, spec, arguments, "PSLoadBalancing(sync=False)", run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code != 0
    logs = "".join(log.read_text() for log in (tmp_path / "run" / "logs").iterdir())
    assert "worker 1 has had other batches than the chief" in logs


def test_what_changes_a_fingerprint():
    large = np.random.default_rng(0).normal(size=(64, 1000)).astype("float32")
    for array in (large, np.arange(6), np.array([["a", "b"], ["c", "d"]], object)):
        changed = array.copy()
        changed[-1] = changed[0]
        others = [changed, array[::-1], array.astype("str"), array[None], array[:-1]]
        assert len({hashed(np.asarray(other)) for other in (array, *others)}) == 6
        assert hashed(array) == hashed(array.copy())


def test_what_belongs_to_a_fingerprint():
    """The batch, unless each worker brings its own, and what comes whole in each case."""
    x, bank = np.ones((4, 2)), np.ones((3, 2))

    def of(*given, own=False, split=(True, False)):
        arguments = flatten(given, {})
        return fingerprint_of(type(arguments)(**{**vars(arguments), "split": split}), own=own)

    assert of(x, bank) != of(2 * x, bank)
    assert of(x, bank) != of(x, 2 * bank)
    assert of(x, bank, own=True) == of(2 * x, bank, own=True) != of(x, 2 * bank, own=True)
    parts = [(k * x).view(LocalArray) for k in (1, 2)]
    assert of(parts[0], bank) == of(parts[1], bank)
    parts[1].note = 7
    assert of(parts[0], bank) != of(parts[1] + 1, bank)


def test_lists_of_files_are_compared(tmp_path):
    """Workers that list other files, or the same ones in another order, would read some twice and others never."""
    names = [str(tmp_path / f"{k}.records") for k in range(4)]
    for k, name in enumerate(names):
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(str(k).encode())

    def note(names, by="file"):
        dataset = tf.data.Dataset.from_tensor_slices(names).shuffle(4).interleave(tf.data.TFRecordDataset).batch(2)
        return next(iter(shard_dataset(dataset, WorkerShares((1, 1), 0), by=by))).note

    assert note(names) == note([str(tmp_path / ".." / tmp_path.name / Path(name).name) for name in names])
    assert len({note(names), note(names[::-1]), note(names[:3])}) == 3


def generated(rows):
    return tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=tf.TensorSpec(rows.shape[1:]))


def texts(rows):
    return tf.data.Dataset.from_tensor_slices({"text": rows.astype("str"), "rows": (rows,)})


def ragged(rows):
    return tf.data.Dataset.from_tensor_slices((tf.RaggedTensor.from_tensor(rows[None], ragged_rank=2)[0], rows))


SOURCES = {"arrays": tf.data.Dataset.from_tensor_slices, "generator": generated, "texts": texts, "ragged": ragged}
PIPELINES = {
    "plain": lambda source: source.batch(8),
    "dense": lambda source: source.map(lambda words, row: (tf.reduce_sum(words), row)).batch(8),
    "shuffled": lambda source: source.shuffle(20).batch(8).repeat(2),
    "filtered": lambda source: source.filter(lambda x: x[0] > 0).shuffle(9).repeat(2).batch(8),
    "kept": lambda source: source.cache().filter(lambda x: x[0] > 0).batch(8),
}
DEALT_OUT = [
    ("arrays", "plain"), ("arrays", "shuffled"), ("arrays", "filtered"), ("generator", "kept"), ("texts", "shuffled"),
    ("ragged", "dense"),
]  # fmt: skip


class Ends:
    """All workers take 24 batches in each pass."""

    def begin(self, has_any):
        return has_any

    def say(self, batches):
        assert batches <= self.last()

    def last(self):
        return 24


def notes(dataset, rank):
    """What goes with the batches of a worker of two, in two passes."""
    sharded = shard_dataset(dataset, WorkerShares((1, 1), rank), by="element", passes=DatasetPasses(begin=Ends))
    return [[tf.nest.flatten(batch)[-1].note for batch in sharded] for _ in range(2)]


@pytest.mark.parametrize(("source", "pipeline"), DEALT_OUT)
def test_sources_whose_elements_are_dealt_out_are_compared_before_any_are_dropped(source, pipeline):
    """However many each worker drops, and however far it is ahead. A block of the source has eight elements."""
    rows = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")

    def of(rows, rank):
        return notes(PIPELINES[pipeline](SOURCES[source](rows)), rank)

    first, second = of(rows, 0)
    assert of(rows.copy(), 1) == [first, second]
    assert len(set(first)) == 10
    assert len(set(second)) == (1 if pipeline == "kept" else 10), "what a cache has is not read again"
    changed = rows.copy()
    changed[27] += 1
    other, _ = of(changed, 1)
    assert first[:3] == other[:3]
    assert set(first[3:]).isdisjoint(other[3:])
    assert set(first).isdisjoint(of(rows[::-1], 1)[0])
    shorter, _ = of(rows[:79], 1)
    assert first[:9] == shorter[:9]
    assert first[9] != shorter[9]


def test_each_pass_is_compared_by_itself():
    """A generator has another order in each pass, and what is left of one pass is no matter of the next."""

    def passes(seed, rank):
        random = np.random.default_rng(seed)
        dataset = tf.data.Dataset.from_generator(lambda: iter(random.permutation(60)), tf.int64, []).batch(4)
        sharded = shard_dataset(dataset, WorkerShares((1, 1), rank), by="element")
        assert next(iter(sharded.dataset)).shape == [2], "somebody looks at the first batch"
        return [[batch.note for batch in itertools.islice(sharded, 4)] for _ in range(3)]

    found = passes(1, 0)
    assert found == passes(1, 1)
    assert len({note for notes in found for note in notes}) == 12
    assert all(found[k][0] != passes(2, 1)[k][0] for k in range(3))


PICTURES = tf.data.Dataset.from_tensor_slices((np.ones((8, 4, 4, 3), "float32"), np.arange(8)))


def flipped(picture, label):
    return tf.image.random_flip_left_right(picture), label


@pytest.mark.parametrize(
    ("dataset", "drawn"),
    [
        (lambda: PICTURES.map(flipped, num_parallel_calls=2).shuffle(8).batch(4).prefetch(1), (True, False)),
        (lambda: PICTURES.map(flipped, num_parallel_calls=2).batch(4).map(lambda x, y: (y, x + 1.0)), (False, True)),
        (lambda: PICTURES.map(flipped).batch(4), (False, False)),
        (lambda: PICTURES.map(lambda x, y: (x * 2, y), num_parallel_calls=2), (False, False)),
        (
            lambda: tf.data.Dataset.zip(PICTURES, PICTURES.map(flipped, num_parallel_calls=2)),
            (False, False, True, False),
        ),
        (lambda: PICTURES.map(flipped, num_parallel_calls=2).filter(lambda x, y: x[0, 0, 0] > 0), (True, True)),
    ],
)
def test_which_parts_are_drawn(dataset, drawn):
    tf.random.set_seed(1)
    assert drawn_parts(dataset()) == drawn
