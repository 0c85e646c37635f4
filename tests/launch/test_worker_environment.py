import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.carriers import Horovod, WorkerPlace
from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import LaunchError
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
COUNTS = st.integers(1, 10_000)
SECONDS = st.floats(0.001, 1e6)


@given(
    st.builds(
        WorkerEnvironment,
        rank=COUNTS,
        world_size=COUNTS,
        master_addr=TEXT,
        master_port=st.integers(1, 65535),
        run_id=TEXT,
        run_dir=st.none() | st.just(Path("/a b/c")),
        token=TEXT,
        spec_path=st.none() | st.just(Path("/a b/spec.json")),
        strategy=st.none() | TEXT,
        seed=st.none() | st.integers(0, 2**32 - 1),
        step_timeout_s=st.none() | SECONDS,
        start_timeout_s=SECONDS,
    )
)
def test_an_environment_is_read_as_it_was_written(environment):
    assert WorkerEnvironment.from_environ(environment.to_environ()) == environment


def test_plain_python_is_rank_0_of_1_whatever_else_is_set():
    environment = WorkerEnvironment.from_environ({"RANK": "3", "WORLD_SIZE": "8", "AUTODIST_STRATEGY": "AllReduce"})
    assert (environment.rank, environment.world_size, environment.strategy) == (0, 1, "AllReduce")
    assert not environment.is_launched


@pytest.mark.parametrize("name", ["AUTODIST_TOKEN", "RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_missing_variable_is_named(name):
    variables = WorkerEnvironment(run_id="r", token="t", master_port=1).to_environ()
    for value in (None, ""):
        broken = {key: text for key, text in variables.items() if key != name} | (
            {} if value is None else {name: value}
        )
        with pytest.raises(LaunchError, match=f"`{name}` is not set"):
            WorkerEnvironment.from_environ(broken)


@pytest.mark.parametrize("name", ["RANK", "AUTODIST_SEED", "AUTODIST_STEP_TIMEOUT_S"])
def test_no_number_is_named(name):
    variables = WorkerEnvironment(run_id="r", token="t", master_port=1).to_environ()
    with pytest.raises(LaunchError, match=f"`{name}` is `many`, it must be a number"):
        WorkerEnvironment.from_environ(variables | {name: "many"})


def test_repr_has_no_token():
    assert "secret" not in repr(WorkerEnvironment(token="secret"))


def test_horovod_variables_of_a_worker():
    place = WorkerPlace(2, 4, node_rank=1, local_rank=0, local_world_size=2, cross_rank=1, cross_size=2, interface="lo")
    variables = Horovod().place_variables(place)
    assert variables["HOROVOD_RANK"] == "2"
    assert variables["HOROVOD_CROSS_SIZE"] == "2"
    assert "HOROVOD_GLOO_RENDEZVOUS_PORT" not in variables, "which the worker chooses once it imports Horovod"


def test_exit_callbacks_come_last_first_and_once():
    worker, calls = Worker(WorkerEnvironment()), []
    for number in range(3):
        worker.on_exit(lambda number=number: calls.append(number))
    for callback in worker.take_exit_callbacks():
        callback()
    assert calls == [2, 1, 0]
    assert worker.take_exit_callbacks() == ()


@pytest.mark.parametrize("module", ["autodist.coordination._worker", "autodist.worker.__main__", "autodist.cli"])
def test_no_tensorflow(module):
    code = f"import sys, {module}; print(sorted({{'tensorflow', 'keras', 'horovod'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(("start_timeout_s", "waited"), [(300.0, "300"), (12.5, "13")])
def test_horovod_waits_for_others_as_long_as_the_run_does(tmp_path, start_timeout_s, waited):
    (tmp_path / "train.py").touch()
    job = Job(tmp_path / "train.py", ResourceSpec.local(), start_timeout_s=start_timeout_s)
    [command] = LocalLauncher().plan(job)
    assert command.env["HOROVOD_GLOO_TIMEOUT_SECONDS"] == waited
    [command] = LocalLauncher().plan(replace(job, env={"HOROVOD_GLOO_TIMEOUT_SECONDS": "7"}))
    assert command.env["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "7"
