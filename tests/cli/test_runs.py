"""``autodist status``, ``logs`` and ``stop``, on real runs of small scripts without TensorFlow."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from autodist.cli.options import kept_as_run
from autodist.launch import read_logs
from autodist.launch.run_files._run_directory import RunDirectory
from autodist.launch.run_files._status import StatusKeeper
from tests.processes import marked

STEP = "from autodist.coordination import current_worker; w = current_worker(); w.steps_taken += 1\n"
READY = "import os, sys, time, signal\nopen(f'ready{w.rank}', 'w').close()\n"
DEAF = "for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\nopen('deaf', 'w')\n"
UNTIL_TOLD = "while not os.path.exists('go'): time.sleep(0.02)\n"


@pytest.fixture
def call(inside):
    """Run a command in this process: exit code, standard output, standard error."""

    def call(*args: str) -> tuple[int, str, str]:
        done = inside(*args)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def status_of(call):
    def status_of(run: str) -> dict:
        exit_code, output, errors = call("status", run, "--json")
        assert exit_code == 0, errors
        return json.loads(output)["run"]

    return status_of


def ended(path: Path, hosts=("localhost",), exit_code=0, **what) -> None:
    """A run as its launcher leaves it."""
    with StatusKeeper(RunDirectory.create(path), hosts, **what) as status:
        for rank in range(len(hosts)):
            status.worker_started(rank, 4711 + rank)
            status.worker_ended(rank, exit_code)
        status.end(exit_code)


@pytest.fixture
def running(shell):
    """A run of two workers that goes on until the file `go` is there."""
    shell.write(STEP + READY + "print('one', w.rank, flush=True)\n" + UNTIL_TOLD + "print('two', w.rank)\n")
    with shell.start("run", "train.py", "-n", "2", "--grace", "3") as process:
        try:
            shell.wait_for("ready0")
            shell.wait_for("ready1")
            yield process
        finally:
            (shell.directory / "go").touch()
            process.communicate(timeout=30)


def test_life_of_a_run(shell, running, status_of, call):
    seen = status_of("latest")
    assert (seen["state"], seen["exit_code"], seen["launcher"]["pid"]) == ("starting", None, running.pid) or (
        seen["state"] == "running" and seen["steps"] == 1
    )
    assert [worker["state"] for worker in seen["workers"]] == ["running", "running"]
    assert str(seen["workers"][1]["pid"]) in " ".join(marked(shell.mark))
    shown = call("status", seen["run_id"])[1]
    assert re.search(r"^launcher  pid \d+ on \S+$", shown, re.MULTILINE)
    assert re.search(r"^ *1 +localhost#1 +\d+ +running ", shown, re.MULTILINE)
    (shell.directory / "go").touch()
    running.wait(timeout=30)
    seen = status_of("latest")
    assert (seen["state"], seen["exit_code"], seen["steps"]) == ("ended", 0, 1)
    assert [worker["exit_code"] for worker in seen["workers"]] == [0, 0]
    assert seen["duration_s"] > 0
    shown = call("status", "latest")[1]
    assert "state     ended with exit code 0, success\n" in shown
    assert f"files     runs/{seen['run_id']}\n" in shown


def test_table_of_runs(shell, call):
    ended(shell.directory / "runs" / "first")
    ended(shell.directory / "runs" / "second", ("a", "a#1", "b"), 3, script="train.py")
    (shell.directory / "runs" / "second" / "strategy.json").write_text('{"schema_version": 1, "builder": "PS(\\"x\\")"')
    ended(shell.directory / "elsewhere")
    (shell.directory / "runs" / "broken").mkdir()
    (shell.directory / "runs" / "broken" / "status.json").write_text("{")
    (shell.directory / "runs" / "no run").mkdir()
    exit_code, output, errors = call("status")
    assert exit_code == 0
    head, _, *rows = [line.split() for line in output.splitlines()]
    assert head == ["Run", "Script", "Strategy", "State", "Exit", "Steps", "Time", "Hosts"]
    assert rows[0][:6] == ["second", "train.py", 'PS("x")', "ended", "3", "0"]
    assert rows[1][:4] == ["first", "ended", "0", "0"]
    assert rows[0][-3:] == ["a", "x2,", "b"]
    assert "warning: `runs/broken/status.json` is damaged" in errors
    listed = json.loads(call("status", "--json")[1])
    assert listed["schema_version"] == 1
    assert [run["exit_code"] for run in listed["runs"]] == [3, 0]
    assert "ended with exit code 3" in call("status", "second")[1]
    assert "ended with exit code 0" in call("status", "elsewhere")[1]
    assert "ended with exit code 0" in call("status", str(shell.directory / "elsewhere"))[1]


def test_reasons_of_auto_leave_room_for_hosts(shell, call):
    reasons = "expected to be number 1 of 14607 by the event simulation; no trials are known; profile: estimated"
    ended(shell.directory / "runs" / "first", ("h1", "h2", "h3", "h4"), script="train.py")
    strategy = json.dumps({"schema_version": 1, "builder": f"auto: `PSLoadBalancing`, {reasons}"})
    (shell.directory / "runs" / "first" / "strategy.json").write_text(strategy)
    (row,) = call("status")[1].splitlines()[2:]
    assert " auto: `PSLoadBalancing`  ended " in row
    assert row.endswith(" h1, h2, h3, h4")
    assert reasons in call("status", "first")[1]


def test_searches_are_runs(shell, call):
    with kept_as_run("search", "train.py", shell.directory / "runs" / "search-1"):
        ended(shell.directory / "runs" / "search-1" / "workers-2")
        assert call("status")[1].splitlines()[-1].split()[:4] == ["search-1", "search", "train.py", "running"]
    (shell.directory / "runs" / "search-1" / "workers-2" / "logs" / "0.log").write_text("hello\n")
    shown = call("status", "search-1")[1]
    assert "script    search train.py\n" in shown
    assert "ended with exit code 0" in shown
    assert call("logs", "search-1")[1] == "[0] hello\n"
    with pytest.raises(KeyboardInterrupt), kept_as_run("profile", "train.py", shell.directory / "runs" / "profile-1"):
        raise KeyboardInterrupt
    assert "interrupted by SIGINT" in call("status", "profile-1")[1]


def test_status_says_that_there_is_no_run(call):
    assert call("status") == (0, "", "autodist: there is no run below ./runs\n")
    assert json.loads(call("status", "--json")[1])["runs"] == []


def test_names_of_runs(shell, call):
    for name in ("20260101-aaa", "20260102-bbb", '-dash it\'s; a "run"\n'):
        ended(shell.directory / "runs" / name)
    assert call("status", "20260101")[0] == 0
    assert call("status", "--", "-dash")[0] == 0
    for command in ("status", "logs", "stop"):
        exit_code, _, errors = call(command, "2026")
        assert exit_code == 2
        assert "`2026` is the beginning of 2 runs: `20260101-aaa`, `20260102-bbb`" in errors
        exit_code, _, errors = call(command, "20260102-bbc")
        assert exit_code == 2
        assert "error: `20260102-bbc` is not a run, did you mean `20260102-bbb`?\n\nhint: there are 3 runs" in errors
    assert "`nothing` is not a run\n" in call("logs", "nothing")[2]
    shutil.rmtree(shell.directory / "runs")
    assert "error: `latest` is not a run, there are no runs in `" in call("logs", "latest")[2]


# --- logs


def test_logs_of_a_run_that_has_ended(shell, call, monkeypatch):
    shell.write(STEP + "for i in range(3): print('line', i, w.rank)\nprint('\\x1b[2J\\x1b[31mred')\n")
    shell("run", "train.py", "-n", "3")

    def lines(*args: str) -> list[str]:
        exit_code, output, errors = call("logs", "latest", *args)
        assert (exit_code, errors) == (0, "")
        return output.splitlines()

    every = [f"[{rank}] {text}" for rank in range(3) for text in (*(f"line {i} {rank}" for i in range(3)), "red")]
    assert lines() == every
    assert lines("--follow") == every
    assert lines("--rank", "1") == every[4:8]
    assert lines("--ranks", "0,2") == [*every[:4], *every[8:]]
    assert lines("-n", "2") == [*every[2:4], *every[6:8], *every[10:]]
    assert lines("-n", "0") == []
    exit_code, _, errors = call("logs", "latest", "--rank", "3")
    assert (exit_code, "run `latest` has no rank 3, its ranks are 0 to 2" in errors) == (2, True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert lines("--rank", "0")[-1].endswith(" \x1b[31mred\x1b[0m"), "colours pass, what moves the cursor does not"


def test_last_lines_of_long_logs(tmp_path):
    """Against what Python makes of the whole file, with lines around the size of the pieces that are read."""
    for end in ("", "\n", "the last one has no end"):
        texts = [f"{i} {'x' * (i * 977 % 70_000)}" for i in range(30)]
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / "0.log").write_text("\n".join(texts) + "\n" + end)
        with StatusKeeper(RunDirectory("x", tmp_path), ["a"]) as status:
            status.end(0)
        expected = ("\n".join(texts) + "\n" + end).splitlines()
        for number in (1, 2, 5, 29, 30, 31, 32, 100):
            assert [text for _, text in read_logs(tmp_path, [0], number)] == expected[-number:]
        assert [text for _, text in read_logs(tmp_path, [0])] == expected


def test_follow_ends_with_the_run(shell, running):
    with shell.start("logs", "latest", "-f", "--rank", "1") as follower:
        assert follower.stdout.readline() == "[1] one 1\n"
        (shell.directory / "go").touch()
        rest, errors = follower.communicate(timeout=30)
    assert (rest, errors, follower.returncode) == ("[1] two 1\n", "", 0)


def test_follow_ends_with_a_launcher_that_was_killed(shell, running):
    with shell.start("logs", "latest", "-f") as follower:
        follower.stdout.readline()
        running.kill()
        running.wait(timeout=20)
        follower.communicate(timeout=30)
    assert follower.returncode == 0


def test_follow_is_ended_by_ctrl_c_and_by_its_reader(shell, running):
    with shell.start("logs", "latest", "-f") as follower:
        follower.stdout.readline()
        os.kill(follower.pid, 2)
        assert "Traceback" not in follower.communicate(timeout=30)[1]
    assert follower.returncode == 130
    with shell.start("logs", "latest", "-f") as follower:
        follower.stdout.readline()
        follower.stdout.close()
        (shell.directory / "go").touch()
        assert follower.wait(timeout=30) in (0, 1)
        assert "Traceback" not in follower.stderr.read()


# --- stop


def test_stop_ends_a_run_and_leaves_nothing(shell, inside, running, status_of, call):
    result = inside("stop", "latest")
    assert (result.returncode, result.stdout) == (0, "")
    assert re.fullmatch(r"autodist: run \S+ has ended, exit code 130\n", result.stderr)
    assert running.wait(timeout=30) == 130
    assert shell.left() == []
    seen = status_of("latest")
    assert (seen["state"], seen["exit_code"]) == ("ended", 130)
    assert "interrupted by SIGINT" in call("status", "latest")[1]
    result = inside("stop", "latest")
    assert result.returncode == 0
    assert "had ended already, exit code 130" in result.stderr


def test_stop_waits_for_the_grace_and_now_does_not(shell, inside, status_of, call):
    shell.write(STEP + READY + DEAF + UNTIL_TOLD)
    with shell.start("run", "train.py", "--grace", "50") as process:
        shell.wait_for("deaf")
        result = inside("stop", "latest", "--timeout", "1.5")
        assert result.returncode == 124
        assert "has not ended within 1.5 s after it was asked to" in result.stderr
        assert "hint: `autodist stop " in result.stderr
        assert status_of("latest")["state"] == "stopping"
        result = inside("stop", "latest", "--now")
        assert result.returncode == 0, result.stderr
        assert process.wait(timeout=20) == 130
    assert shell.left() == []


def test_stop_now_from_the_start(shell, inside):
    shell.write(STEP + READY + DEAF + UNTIL_TOLD)
    with shell.start("run", "train.py", "--grace", "200") as process:
        shell.wait_for("deaf")
        assert inside("stop", "latest", "--now").returncode == 0
        assert process.wait(timeout=20) == 130
    assert shell.left() == []


def test_killed_launcher_is_lost(shell, inside, running, status_of, call):
    running.kill()
    running.wait(timeout=20)
    seen = status_of("latest")
    assert (seen["state"], [worker["state"] for worker in seen["workers"]]) == ("lost", ["lost", "lost"])
    assert " lost " in call("status")[1]
    result = inside("stop", "latest")
    assert (result.returncode, "had ended already, its launcher was killed" in result.stderr) == (0, True)


def change_launcher(shell, **changes):
    file = next((shell.directory / "runs").glob("*/status.json"))
    values = json.loads(file.read_text())
    values["launcher"] |= changes
    file.write_text(json.dumps(values))
    return values


def change_status(shell, launcher, **changes) -> Path:
    file = next((shell.directory / "runs").glob("*/status.json"))
    values = {**json.loads(file.read_text()), "state": "running", "ended_at": None, "exit_code": None, **changes}
    file.write_text(json.dumps({**values, "launcher": {**values["launcher"], **launcher}}))
    return file.parent


def test_nobody_else_is_interrupted(shell, call, status_of):
    """The number of a launcher that was killed belongs to another process now: this one."""
    ended(shell.directory / "runs" / "x")
    run_dir = change_status(shell, {"start_ticks": 1})
    exit_code, _, errors = call("stop", "x")
    assert (exit_code, "its launcher was killed" in errors) == (0, True)
    assert status_of("x")["state"] == "lost"
    assert run_dir.name == "x"


def test_run_of_another_machine(shell, call, status_of):
    ended(shell.directory / "runs" / "it's")
    run_dir = change_status(shell, {"host": "gpu-7", "pid": 4711}, updated_at="2020-01-01T00:00:00.000+00:00")
    assert status_of("it")["state"] == "silent"
    assert "nothing was heard of its launcher since" in call("status", "it")[1]
    assert call("logs", "it", "-f")[0] == 0
    exit_code, _, errors = call("stop", "it")
    assert exit_code == 1
    assert "was launched on `gpu-7` (pid 4711), which is not here" in errors
    assert f"hint: type there: autodist stop {shlex.quote(str(run_dir))}\n" in errors


def test_run_that_restarts(shell, inside, status_of):
    """Its log is followed over the restart, it is stopped in the pause before another one."""
    shell.write(
        STEP + "import os\nprint('attempt', os.environ['AUTODIST_ATTEMPT'], flush=True)\n"
        "open('ready' + os.environ['AUTODIST_ATTEMPT'], 'w')\nos.kill(os.getpid(), 9)\n"
    )
    with shell.start("run", "train.py", "--max-restarts", "9") as process:
        shell.wait_for("ready0")
        with shell.start("logs", "latest", "-f") as follower:
            first, second = (int(follower.stdout.readline().removeprefix("[0] attempt ")) for _ in range(2))
            assert second == first + 1
            while (seen := status_of("latest"))["state"] != "restarting":
                assert process.poll() is None
            assert (seen["exit_code"], seen["ended_at"], seen["workers"][0]["signal"]) == (None, None, "SIGKILL")
            assert inside("stop", "latest").returncode == 0
            assert process.wait(timeout=20) == 130
            assert follower.wait(timeout=20) == 0
    seen = status_of("latest")
    assert (seen["state"], seen["exit_code"], seen["attempt"] >= 1) == ("ended", 130, True)
    assert shell.left() == []


def test_logs_of_a_run_that_restarts(tmp_path):
    """The file of the first attempt is put aside while somebody reads it."""
    directory = RunDirectory.create(tmp_path / "run")
    with StatusKeeper(directory, ["a"], restarts_left=1) as status:
        directory.log(0).write_text("one\ntwo\n")
        followed = read_logs(directory.path, [0], 1, follow=True)
        assert next(followed) == (0, "two")
        with directory.log(0).open("a") as log:
            log.write("three\n")
        status.end(1, is_final=False)
        directory.put_logs_aside(0)
        directory.log(0).write_text("again\n")
        assert [next(followed), next(followed)] == [(0, "three"), (0, "again")]
    with StatusKeeper(directory, ["a"], attempt=1) as status:
        status.end(0)
    assert list(followed) == []
