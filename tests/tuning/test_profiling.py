"""Profiles made by launched workers, and found again."""

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from autodist.errors import SearchFailed, WorkerFailed
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.runtime.measuring import ProfileOrder
from autodist.search import Measurement
from autodist.simulator import ProfileCache
from autodist.strategies import get
from autodist.tuning import LaunchedMeasurer, TrialSchedule, find_profile, profile

SCRIPT = Path(__file__).with_name("train.py")
DEADLY = """
import os
import numpy as np
import tensorflow as tf
import autodist

w = tf.Variable(tf.ones([4, 1]))
with autodist.scope():
    @autodist.function
    def step(x):
        tf.py_function(lambda: os._exit(3), [], [])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    step(np.ones((8, 4), "float32"))
"""


def job(tmp_path, script=SCRIPT, workers=1):
    return Job(script, ResourceSpec.local(workers=workers), run_dir=tmp_path / "run", grace_s=2.0)


@contextmanager
def serving(bench):
    thread = threading.Thread(target=bench.serve)
    thread.start()
    try:
        yield
    finally:
        bench.close()
        thread.join(240)
    assert not thread.is_alive()


@pytest.mark.slow  # tests/cli/test_search.py has a search that finds its profile again
def test_a_search_measures_once(tmp_path):
    bench = LaunchedMeasurer(ClusterLauncher(), job(tmp_path, workers=2), TrialSchedule(1, 2, 60.0))
    cache, told = ProfileCache(tmp_path / "cache"), []

    def notice(text):
        told.extend([] if text.startswith("the step waited") else [text])  # other work may disturb a test

    with serving(bench):
        _, graph = bench.captured()
        assert bench.subject.batch_size == 32, "of one of two workers"
        measured = find_profile(bench, graph, cache, notice)
        assert (measured.source, measured.batch_size, measured.device) == ("measured", 32, bench.subject.device)
        assert measured.ready_s.keys() == {variable.name for variable in graph.trainable}
        [path] = cache.directory.iterdir()
        assert told == []

        written = path.stat().st_mtime_ns
        assert find_profile(bench, graph, cache, notice) == measured
        assert told == [f"profile: {path}"]
        assert path.stat().st_mtime_ns == written

        path.write_text("damaged")
        again = find_profile(bench, graph, cache, notice)
        assert again.source == "measured"
        assert told[1].startswith(f"the profile is made again: `{path}`: this is not a profile")
        assert cache.load(graph, bench.subject) == again

        strategy = get("PSLoadBalancing").build(graph, ResourceSpec.local(workers=2))
        assert isinstance(bench.measure(0, strategy, None), Measurement), "trials go on as before"
        assert bench.starts == 1
    for rank in range(2):
        assert "untouched" in (tmp_path / "run" / "workers-0" / "logs" / f"{rank}.log").read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_profile_that_ends_its_worker_is_told_and_the_search_goes_on(tmp_path):
    script = tmp_path / "deadly.py"
    script.write_text(DEADLY)
    bench, told = LaunchedMeasurer(ClusterLauncher(), job(tmp_path, script)), []
    with serving(bench):
        _, graph = bench.captured()
        assert find_profile(bench, graph, ProfileCache(tmp_path / "cache"), told.append) is None
    assert told == ["the step could not be profiled (crash): worker 0 ended with exit code 3"]


@pytest.mark.slow
def test_a_step_that_can_not_be_profiled_is_an_error_of_its_own_command(tmp_path):
    script = tmp_path / "deadly.py"
    script.write_text(DEADLY)
    with pytest.raises(WorkerFailed, match=r"could not be profiled \(crash\)"):
        profile(job(tmp_path, script), ClusterLauncher(), ProfileOrder(), ProfileCache(tmp_path / "cache"), print)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["workers-0"], "nothing was started anew"


def test_a_cache_that_can_not_be_written_does_no_harm(tmp_path):
    (tmp_path / "cache").write_text("a file where a directory is needed")
    told = []
    done = profile(job(tmp_path), ClusterLauncher(), ProfileOrder(2), ProfileCache(tmp_path / "cache"), told.append)
    assert done.path is None
    assert done.profile.source == "measured"
    assert [line.partition(": ")[0] for line in told] == [f"the profile can't be kept in `{tmp_path / 'cache'}`"]


def test_a_script_without_a_step(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(SearchFailed, match="has ended without a training step in a scope"):
        profile(job(tmp_path, script), ClusterLauncher(), ProfileOrder(), ProfileCache(tmp_path / "cache"), print)
