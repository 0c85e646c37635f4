"""`status.json`: what a launcher keeps in it, and what a reader makes of it."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from autodist.coordination._coordinator_server import Progress
from autodist.errors import LaunchError, UsageError
from autodist.launch.run_files._process_id import is_alive, this_process
from autodist.launch.run_files._run_directory import RunDirectory
from autodist.launch.run_files._status import StatusKeeper, end_restarts, read_status
from autodist.report import RunState, WorkerState

STEP = "w.steps_taken += 1\n"


@pytest.fixture
def directory(tmp_path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def test_status_of_a_run_from_its_start_to_its_end(bench):
    """Seen by the run's own worker: 0 steps, then running, then, by us, ended."""
    result = bench.run(
        "import json, pathlib\n"
        "def status(): return json.loads((pathlib.Path(os.environ['AUTODIST_RUN_DIR']) / 'status.json').read_text())\n"
        "assert status()['state'] == 'starting', status()\n"
        "w.coordinator.barrier('seen', 20.0)\n" + STEP + "w.coordinator.report(1, False)\n"
        "for _ in range(200):\n    time.sleep(0.05)\n    if status()['state'] == 'running': break\n"
        "else: raise ValueError(status())\n"
        "print(status()['launcher']['pid'], status()['workers'][w.rank]['pid'] == os.getpid())\n"
        "w.coordinator.barrier('end', 20.0)\n" + STEP + "sys.exit(3 if w.rank else 0)",
        grace_s=1.0,
    )
    assert result.exit_code == 3, bench.observer.lines
    assert bench.observer.texts(0)[0] == f"{os.getpid()} True"
    status = read_status(result.run_dir)
    assert (status.state, status.exit_code, status.attempt, status.steps) == (RunState.ENDED, 3, 0, 2)
    assert status.is_over
    assert [worker.host for worker in status.workers] == ["localhost", "localhost#1"]
    assert status.workers[1].exit_code == 3
    assert {worker.state for worker in status.workers} == {WorkerState.ENDED}
    assert {worker.steps for worker in status.workers} == {2}
    assert status.started_at < status.workers[0].progressed_at <= status.ended_at <= status.updated_at
    assert [path.name for path in result.run_dir.iterdir() if path.name.startswith(".")] == []


def test_run_that_can_not_start_has_ended(bench):
    from autodist.launch import Job, LocalLauncher
    from autodist.resource_spec import Host, ResourceSpec

    spec = ResourceSpec((Host("localhost", "localhost", python="/nowhere/python"),))
    with pytest.raises(LaunchError):
        LocalLauncher().launch(Job(bench.script(""), spec, run_dir=bench.directory / "run"))
    status = read_status(bench.directory / "run")
    assert (status.state, status.exit_code, status.workers[0].state) == (RunState.ENDED, 1, WorkerState.WAITING)


def test_error_is_noted_with_its_exit_code(directory):
    with pytest.raises(UsageError), StatusKeeper(directory, ["a"]):
        raise UsageError("x")
    assert read_status(directory.path).exit_code == 2


def test_attempts_are_one_run(directory):
    with StatusKeeper(directory, ["a"], restarts_left=2) as status:
        status.worker_started(0, 12)
        status.worker_ended(0, None, "SIGKILL")
        status.end(1, is_final=False)
    first = read_status(directory.path)
    assert (first.state, first.exit_code, first.is_over) == (RunState.RESTARTING, None, False)
    assert first.workers[0].signal == "SIGKILL"
    with StatusKeeper(directory, ["a"], attempt=1, restarts_left=1) as status:
        second = read_status(directory.path)
        assert (second.state, second.attempt, second.started_at) == (RunState.STARTING, 1, first.started_at)
        assert second.workers[0].signal is None
        status.end(1, is_final=False)
    end_restarts(directory.path, 130)
    assert (read_status(directory.path).state, read_status(directory.path).exit_code) == (RunState.ENDED, 130)


def test_workers_of_a_lost_machine(directory):
    with StatusKeeper(directory, ["a", "a#1", "b"]) as status:
        for rank in range(3):
            status.worker_started(rank, 10 + rank)
        status.worker_ended(0, 0)
        status.workers_lost((0, 1))
        states = [worker.state for worker in read_status(directory.path).workers]
        assert states == [WorkerState.ENDED, WorkerState.LOST, WorkerState.RUNNING]
        status.end(1)


def test_readers_see_whole_files_only(directory):
    """One writes as fast as it can, we read all the time."""
    stop = threading.Event()

    def write() -> None:
        with StatusKeeper(directory, ["a"] * 50) as status:
            while not stop.is_set():
                status.worker_started(7, 1)
            status.end(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not (directory.path / "status.json").exists():
            time.sleep(0.001)
        assert {len(read_status(directory.path).workers) for _ in range(100)} == {50}
    finally:
        stop.set()
        writer.join()


def test_full_disk_or_vanished_directory_do_not_reach_the_run(tmp_path):
    with StatusKeeper(RunDirectory("x", tmp_path / "gone"), ["a"]) as status:
        status.worker_started(0, 1)
        status.end(0)
    assert not (tmp_path / "gone").exists()


def test_progress_is_written_now_and_then(directory):
    def steps(number: int) -> dict[int, Progress]:
        return {0: Progress(number, None, time.monotonic())}

    with StatusKeeper(directory, ["a"]) as status:
        status.progressed({})
        assert read_status(directory.path).state is RunState.STARTING
        status.progressed(steps(5))
        assert (read_status(directory.path).state, read_status(directory.path).steps) == (RunState.RUNNING, 5)
        status.progressed(steps(6))
        assert read_status(directory.path).steps == 5, "not written at every call"
        status.end(0)
    assert read_status(directory.path).steps == 6


# --- whether the launcher is still there


def test_killed_launcher_is_lost(tmp_path):
    code = (
        "import sys, os, pathlib\nfrom autodist.launch.run_files._run_directory import RunDirectory\n"
        "from autodist.launch.run_files._status import StatusKeeper\n"
        "status = StatusKeeper(RunDirectory('x', pathlib.Path(sys.argv[1])), ['a']).__enter__()\n"
        "status.worker_started(0, 1)\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert read_status(tmp_path).state is RunState.STARTING
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert read_status(tmp_path).state is RunState.LOST, "a zombie"
    status = read_status(tmp_path)
    assert (status.state, status.workers[0].state, status.is_over) == (RunState.LOST, WorkerState.LOST, True)


def test_processes_are_told_apart():
    mine = this_process()
    assert is_alive(mine) is True
    assert is_alive(replace(mine, start_ticks=mine.start_ticks - 1)) is False, "the number was given to another"
    assert is_alive(replace(mine, boot_id="earlier", namespace="other")) is False
    assert is_alive(replace(mine, host="elsewhere")) is None
    assert is_alive(replace(mine, namespace="pid:[1]")) is None
    assert is_alive(replace(mine, pid=2**22 + 1)) is False
    assert is_alive(replace(mine, start_ticks=None)) is True


# --- what can't be read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"schema_version": 1}', "is damaged"),
        ('{"schema_version": 2}', "has the schema version 2, this AutoDist reads 1"),
        ("[" * 100_000, "is damaged"),
    ],
)
def test_what_is_no_status_is_told(tmp_path, text, message):
    (tmp_path / "status.json").write_text(text)
    with pytest.raises(LaunchError, match=message):
        read_status(tmp_path)


def test_unknown_state_is_damage(directory):
    with StatusKeeper(directory, ["a"]) as status:
        status.end(0)
    file = directory.path / "status.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "state": "dancing"}))
    with pytest.raises(LaunchError, match="dancing"):
        read_status(directory.path)


def test_attempt_that_can_not_be_started_may_be_followed_by_another(directory):
    with StatusKeeper(directory, ["a"], restarts_left=2) as status:
        status.end(1, is_final=False)
    with pytest.raises(LaunchError), StatusKeeper(directory, ["a"], attempt=1, restarts_left=1):
        raise LaunchError("a machine is away")
    assert read_status(directory.path).state is RunState.RESTARTING
