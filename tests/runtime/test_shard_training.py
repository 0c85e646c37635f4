"""Workers that read different data learn what one device does from the same global batches."""

import itertools
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import tensorflow as tf

from autodist.coordination import CoordinatorClient, CoordinatorServer
from autodist.errors import UsageError
from autodist.runtime.data import DatasetEnds, WorkerShares, going_on_together, shard_dataset

from . import shard_script

SIZES = (5, 9, 0, 8, 2)  # batches of 6 leave a rest, and files go to workers unevenly
TOKEN = "7" * 32


@pytest.mark.parametrize("counts", [(3, 3), (0, 2, 5), (4, 1, 0), (0, 0)])
def test_workers_end_together(counts):
    """A barrier stands for the step, in which all wait for each other."""
    step = Barrier(len(counts))
    with CoordinatorServer(world_size=len(counts), token=TOKEN) as server:

        def work(rank):
            client = CoordinatorClient(server.address, server.port, TOKEN, rank)
            found = []
            own = iter(range(1, counts[rank] + 1))
            ends = DatasetEnds(client, "ends/0", rank, len(counts))
            for batch in going_on_together(own, ends, lambda like: 0, lambda: None):
                step.wait(60)
                found.append(batch)
            return found

        with ThreadPoolExecutor(len(counts)) as pool:
            found = list(pool.map(work, range(len(counts))))
    assert found == [[*range(1, n + 1), *[0] * (max(counts) - n)] for n in counts]


def test_a_worker_without_batches_waits_for_those_that_come_later():
    """Whoever asks first must not take a step that nobody else takes."""
    steps = []
    with CoordinatorServer(world_size=2, token=TOKEN) as server:

        def work(rank):
            client = CoordinatorClient(server.address, server.port, TOKEN, rank)
            time.sleep(0.5 * rank)
            steps.extend(
                going_on_together(iter(()), DatasetEnds(client, "ends/0", rank, 2), lambda like: 0, lambda: None)
            )

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
    assert steps == []


def test_what_ends_apart_can_be_refused():
    def refuse():
        raise UsageError("no")

    with CoordinatorServer(world_size=1, token=TOKEN) as server:
        client = CoordinatorClient(server.address, server.port, TOKEN, 0)
        with pytest.raises(UsageError, match="no"):
            next(going_on_together(iter([1]), DatasetEnds(client, "ends/0", 0, 1), lambda like: 0, refuse))


def joined(directory, world, by):
    """The global batches that the parts of all workers make."""
    if by in ("auto", "batch"):
        return list(shard_script.dataset(directory).as_numpy_iterator())
    shards = [
        shard_dataset(shard_script.dataset(directory), WorkerShares((1,) * world, rank), by=by) for rank in range(world)
    ]
    steps = itertools.zip_longest(*([tf.nest.map_structure(np.array, b) for b in shard] for shard in shards))
    return [tuple(map(np.concatenate, zip(*filter(None, parts), strict=True))) for parts in steps]


def check(tmp_path, world, strategy, ways):
    data = tmp_path / "data"
    data.mkdir()
    rows = shard_script.write(data, SIZES)
    command = [sys.executable, "-m", "autodist", "run", str(Path(shard_script.__file__)), "--workers", str(world)]
    command += ["--strategy", strategy, "--", f"{tmp_path}/", str(data), ",".join(ways)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world)]
    for by in ways:
        batches = joined(data, world, by)
        assert sorted(int(n) for batch in batches for n in batch[2]) == list(range(len(rows)))
        expected = shard_script.loop(batches)
        compare([one[f"loop {by}"] for one in found], expected, by)
        compare([one[f"resumed {by}"] for one in found], expected, by)
        seen = [list(itertools.chain(*parts)) for parts in zip(*(o[f"loop {by}"]["seen"] for o in found), strict=True)]
        assert seen == [batch[2].tolist() for batch in batches] * 2
        spec = (tf.TensorSpec([None, shard_script.FEATURES]), tf.TensorSpec([None, 1]))
        plain = tf.data.Dataset.from_generator(lambda b=batches: ((x, y) for x, y, _ in b), output_signature=spec)
        plain = plain.apply(tf.data.experimental.assert_cardinality(len(batches)))
        compare([one[f"fit {by}"] for one in found], shard_script.fit(plain), by)


def compare(found, expected, by):
    for one in found:
        np.testing.assert_allclose(one["losses"], expected["losses"], rtol=1e-5, err_msg=by)
        for value, other, start in zip(
            one["weights"], expected["weights"], shard_script.make_model().variables, strict=True
        ):
            np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6, err_msg=by)
            assert not np.allclose(value, start.numpy())


@pytest.mark.slow
def test_training_of_three_workers(tmp_path):
    check(tmp_path, 3, "PSLoadBalancing", ["batch", "file", "element"])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["AllReduce(communicator='collective')", "Parallax"])
def test_training_of_two_workers(strategy, tmp_path):
    check(tmp_path, 2, strategy, ["auto", "file", "element"])
