"""Trials in real workers: what is measured, what fails, and that a failure costs only itself."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autodist.errors import SearchFailed
from autodist.launch import ClusterLauncher, Job, read_status
from autodist.resource_spec import ResourceSpec
from autodist.search import Failure, Measurement
from autodist.strategies import get
from autodist.tuning import LaunchedMeasurer, TrialSchedule

SCRIPT = Path(__file__).with_name("train.py")
SHORT = TrialSchedule(warm_up=4, iterations=6, timeout_s=60)


@contextmanager
def serving(bench):
    """The workers of a bench, beside the test."""
    results = []
    thread = threading.Thread(target=lambda: results.append(bench.serve()))
    thread.start()
    try:
        yield results
    finally:
        bench.close()
        thread.join(60)
    assert not thread.is_alive()


def job(tmp_path, script=SCRIPT, workers=2):
    return Job(script, ResourceSpec.local(workers=workers), run_dir=tmp_path / "run", grace_s=2.0)


def worker_pid(tmp_path, start, rank):
    [worker] = [w for w in read_status(tmp_path / "run" / f"workers-{start}").workers if w.rank == rank]
    return worker.pid


def wait_until(holds, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def in_a_moment(act):
    threading.Timer(1.0, act).start()


@pytest.mark.slow
@pytest.mark.horovod
def test_trials_of_two_workers(tmp_path):
    bench = LaunchedMeasurer(ClusterLauncher(), job(tmp_path), SHORT)
    with serving(bench) as results:
        content, graph = bench.captured()
        spec = ResourceSpec.local(workers=2)
        assert content
        assert graph.batch_size == 64
        names = ("PSLoadBalancing", "AllReduce(communicator='collective')", "AllReduce(communicator='horovod')")
        servers, collective, horovod = (get(name).build(graph, spec) for name in names)

        for number, strategy in enumerate((servers, collective, horovod, servers)):
            measured = bench.measure(number, strategy, None)
            assert isinstance(measured, Measurement)
            assert (len(measured.steps_s), measured.warm_up) == (6, 4)
            assert min(measured.steps_s) > 0
        floor = bench.floor()
        assert isinstance(floor, Measurement)
        assert (len(floor.steps_s), floor.warm_up) == (6, 4)
        assert floor.step_s < 2 * measured.step_s
        hopeless = bench.measure(4, servers, 1e-9)
        assert isinstance(hopeless, Measurement)
        assert len(hopeless.steps_s) + hopeless.warm_up == 2

        mixed = replace(servers, variables=(servers.variables[0], *collective.variables[1:]))
        refused = bench.measure(5, mixed, None)
        assert isinstance(refused, Failure)
        assert refused.reason == "refused"
        assert bench.starts == 1, "nobody had to be started anew so far"

        bench.schedule = TrialSchedule(warm_up=0, iterations=100_000, timeout_s=60)
        in_a_moment(lambda: os.kill(worker_pid(tmp_path, 0, 1), signal.SIGKILL))
        assert bench.measure(6, servers, None) == Failure("memory", "worker 1 ended with signal SIGKILL")
        bench.schedule = SHORT
        assert isinstance(bench.measure(7, horovod, None), Measurement)
        assert bench.starts == 2

        bench.schedule = TrialSchedule(warm_up=0, iterations=100_000, timeout_s=3)
        began = time.monotonic()
        assert bench.measure(8, collective, None) == Failure("timeout", "it took more than 3 s")
        assert time.monotonic() - began < 30
        bench.schedule = SHORT
        assert isinstance(bench.measure(9, collective, None), Measurement)
        assert bench.starts == 3

        # Between two trials nobody is to blame, and nothing failed.
        os.kill(worker_pid(tmp_path, 2, 1), signal.SIGKILL)
        wait_until(lambda: bench.starts == 4)
        bench.schedule = TrialSchedule(warm_up=0, iterations=50, enough_s=1e-9)
        assert len(bench.measure(10, collective, None).steps_s) == 3
    assert [result.exit_code for result in results] == [0]
    for rank in range(2):
        assert "untouched" in (tmp_path / "run" / "workers-3" / "logs" / f"{rank}.log").read_text()


@pytest.mark.parametrize(("step_s", "steps"), [(0.0, 40), (0.2, 40), (0.5, 20), (9.0, 3), (1e9, 3)])
def test_of_long_steps_fewer_are_enough(step_s, steps):
    assert TrialSchedule(enough_s=10.0).measured_steps(step_s) == steps
    assert TrialSchedule().measured_steps(step_s) == 40
    assert TrialSchedule(iterations=2, enough_s=10.0).measured_steps(step_s) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has ended without a training step in a scope"),
        ("1 / 0", "the workers have failed: worker 0 ended with exit code 1"),
    ],
)
def test_a_script_without_a_step(tmp_path, text, message):
    script = tmp_path / "train.py"
    script.write_text(text)
    bench = LaunchedMeasurer(ClusterLauncher(), job(tmp_path, script, workers=1), SHORT)
    with serving(bench), pytest.raises(SearchFailed, match=message):
        bench.captured()
