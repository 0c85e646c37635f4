"""``autodist run`` as users run it: a process of its own, small scripts, no TensorFlow unless a test says so."""

import errno
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from autodist.cli import main
from autodist.launch.run_files._run_directory import RunDirectory
from tests.processes import marked

STEP = "from autodist.coordination import current_worker; w = current_worker(); w.steps_taken += 1\n"
READY = "import os, sys, time, signal, subprocess; open(f'ready{w.rank}', 'w').close()\n"


def test_lines_carry_their_rank_and_streams_stay_apart(shell):
    shell.write(STEP + "import sys; print('out', w.rank); print('err', w.rank, file=sys.stderr)")
    result = shell("run", "train.py", "--workers", "3")
    assert result.returncode == 0
    assert sorted(result.stdout.splitlines()) == ["[0] out 0", "[1] out 1", "[2] out 2"]
    for rank in range(3):
        assert f"[{rank}] err {rank}\n" in result.stderr
    first, *_, last = result.stderr.splitlines()
    assert re.fullmatch(
        r"autodist: run [\w-]+: 3 workers \(localhost, .*\), strategy the script's, else AllReduce", first
    )
    assert re.fullmatch(r"autodist: done after \d+\.\d s, logs are in (runs/[\w-]+)(; next: `.*\1`.*)?", last)
    assert (shell.directory / "runs" / "latest" / "logs" / "2.log").read_text().splitlines()[0] == "out 2"


@pytest.mark.parametrize(
    "args",
    [
        ["--workers", "2", "train.py", "--", "--epochs", "3", "--", "-x"],
        pytest.param(["train.py", "--workers", "2", "--", "--epochs", "3", "--", "-x"], marks=pytest.mark.slow),
        pytest.param(["-n2", "train.py", "--", "--epochs", "3", "--", "-x"], marks=pytest.mark.slow),
    ],
)
def test_options_on_either_side(shell, args):
    shell.write(STEP + "import sys; print(sys.argv, w.world_size)")
    result = shell("run", *args)
    assert "[1] ['train.py', '--epochs', '3', '--', '-x'] 2\n" in result.stdout, result.stderr


def test_a_module_runs_as_python_runs_it(shell):
    (shell.directory / "package").mkdir()
    shell.write("", "package/__init__.py")
    shell.write("VALUE = 42", "package/data.py")
    told = "import sys; from .data import VALUE; print(__name__, __package__, sys.argv, sys.path[0], VALUE)\n"
    shell.write(f"{told}if 'fail' in sys.argv: raise ValueError('no')\n{STEP}", "package/train.py")
    command = [sys.executable, "-m", "package.train", "--x", "1"]
    plain = subprocess.run(command, cwd=shell.directory, capture_output=True, text=True, timeout=60, check=True)
    result = shell("run", "-m", "package.train", "--workers", "2", "--", "--x", "1")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] {plain.stdout.strip()}" for rank in range(2)]
    result = shell("run", "-m", "package.train", "--", "fail")
    assert "error: worker 0 ended with exit code 1 at package/train.py:2: ValueError: no\n" in result.stderr


def test_ranks_filters_the_console_only(shell, inside):
    shell.write(STEP + "print('hello')")
    result = shell("run", "train.py", "-n", "3", "--ranks", "0,2")
    assert sorted(result.stdout.splitlines()) == ["[0] hello", "[2] hello"]
    assert (shell.directory / "runs" / "latest" / "logs" / "1.log").read_text() == "hello\n"
    result = inside("run", "train.py", "-n", "2", "--ranks", "2")
    assert result.returncode == 2
    assert "the ranks of this run are 0 to 1" in result.stderr


def test_a_reader_that_has_gone_away_is_no_error(shell):
    shell.write(STEP + "print('x' * 100)")
    command = [sys.executable, "-m", "autodist", "run", "train.py"]
    run = subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stdout.close()
    _, told = run.communicate(timeout=60)
    assert run.returncode == 0
    assert told.splitlines()[-1].startswith("autodist: done after")


def test_a_full_disk_is_told_in_a_sentence(monkeypatch, tmp_path, capsys):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "runs/x/spec.json")

    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RunDirectory, "write_spec", write)
    assert main(["run", "train.py"]) == 1
    told = capsys.readouterr().err
    assert "No space left on device: 'runs/x/spec.json'" in told
    assert "hint: make room" in told
    assert "Traceback" not in told


def test_failure_block(shell):
    shell.write(STEP + "import time\nif w.rank == 1:\n    raise ValueError('only [bold] here')\ntime.sleep(60)")
    result = shell("run", "train.py", "--workers", "2")
    assert result.returncode == 1
    block = result.stderr[result.stderr.index("\nrun failed after") :]
    assert re.search(r"first failure  worker 1 of 2 on localhost#1, pid \d+, exit code 1\n", block)
    assert re.search(r"its log        runs/[\w-]+/logs/1\.log\n", block)
    assert "\n  your lines\n    train.py:4  raise ValueError('only [bold] here')\n\n" in block
    assert result.stderr.count("ValueError: only [bold] here") == 1
    assert "Traceback" not in result.stderr
    error = "error: worker 1 ended with exit code 1 at train.py:4: ValueError: only [bold] here"
    assert block.splitlines()[-1] == error  # there is nothing to do about it that we know


def test_spec_file_default_and_conflict(shell, inside):
    def workers(*options):
        return re.findall(r"^worker (\d) on \S+", inside("run", "train.py", *options, "--dry-run").stdout, re.MULTILINE)

    shell.write(STEP + "print(w.world_size)")
    assert workers() == ["0"]
    shell.write("nodes: [{address: localhost, workers: 2}]", "cluster.yml")
    assert sorted(shell("run", "train.py").stdout.splitlines()) == ["[0] 2", "[1] 2"]
    assert workers() == ["0", "1"]
    assert workers("--workers", "1") == ["0"]
    told = "autodist: `--workers` says what the cluster is; `--spec cluster.yml` takes the file that is here\n"
    assert told in inside("run", "train.py", "--workers", "1", "--dry-run").stderr
    for options in ((), ("--spec", "cluster.yml")):
        assert "takes the file" not in inside("run", "train.py", *options, "--dry-run").stderr
    result = inside("run", "train.py", "--spec", "cluster.yml", "--workers", "2")
    assert result.returncode == 2
    assert "`--spec` and `--workers` were given, they exclude each other" in result.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["nope.py"], "the script `nope.py` does not exist"),
        (["."], "the script `.` is a directory"),
        (["cluster.yaml"], "the script `cluster.yaml` is a YAML file, workers run Python"),
        (["-m", "nope.train"], "`-m nope.train`: there is no such module"),
        (["-m", "train.py"], "a file goes without `-m`"),
        (["hvd.py"], "`hvd.py` is distributed by Horovod already, and has no `autodist.scope()`\n\nhint: take"),
        (["-m"], "Missing argument 'SCRIPT'"),
        (["train.py", "--spec", "nope.yml"], "`nope.yml` does not exist"),
        (["train.py", "--strategy", "PSLoadBalancin"], "did you mean `PSLoadBalancing`"),
        (["train.py", "--strategy", "nope.json"], "hint: `autodist search SCRIPT --out FILE` makes such a file"),
        (["nope.ipynb"], "hint: give the path of a Python file, absolute or from the working directory\n"),
        (["train.py", "--workers", "0"], "0"),
        (["train.py", "--grace", "-1"], "`grace_s` is -1.0"),
        (["train.py", "--seed", "-1"], "the seed is -1"),
    ],
)
def test_wrong_usage_starts_nothing(shell, inside, args, text):
    shell.write(STEP)
    shell.write("nodes: []", "cluster.yaml")
    if args == ["hvd.py"]:  # `train.py` next to it is ours, and it does not import that
        shell.write("import horovod.tensorflow as hvd\nhvd.init()\n", "hvd.py")
    result = inside("run", *args)
    assert result.returncode == 2, result.stderr
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert not (shell.directory / "runs").exists()


def test_dry_run_starts_nothing(shell, inside):
    shell.write("open('started', 'w')")
    result = inside("run", "train.py", "-n", "2", "--strategy", "AllReduce", "--dry-run", "--", "a b")
    assert result.returncode == 0
    assert "worker 1 on localhost#1\n" in result.stdout
    assert "-m autodist.worker train.py 'a b'\n" in result.stdout
    assert "AUTODIST_STRATEGY=AllReduce\n" in result.stdout
    assert "AUTODIST_TOKEN='***'\n" in result.stdout
    assert [path.name for path in shell.directory.iterdir()] == ["train.py"]


def test_a_damaged_store_of_trials_is_told_and_stops_nothing(shell, inside):
    shell.write("")
    (shell.directory / "runs").mkdir()
    (shell.directory / "runs" / "trials.db").write_bytes(b"no store" * 1000)
    result = inside("run", "train.py", "-n", "2", "--strategy", "auto", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "is damaged" in result.stderr
    assert "the strategy is chosen without trials" in result.stderr
    assert "AUTODIST_STRATEGY=" in result.stdout


def test_options_without_effect_are_told(shell, inside):
    shell.write("")
    result = inside("run", "train.py", "-n", "2", "--bring", "data", "--host-timeout", "9", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "warning: `--bring` and `--host-timeout` have no effect: all workers are on this machine\n" in result.stderr
    assert "no effect" not in inside("run", "train.py", "-n", "2", "--grace", "9", "--dry-run").stderr
    assert "no effect" not in inside("run", "train.py", "-H", "a,b", "--host-timeout", "9", "--dry-run").stderr


def test_dry_run_for_other_machines_reaches_for_none(shell, inside):
    shell.write("")
    shell.write("", name="model.py")
    shell.write("ssh: {g: {username: me}}\nnodes: [{address: nowhere.invalid, directory: ~/x, ssh_config: g}]", "c.yml")
    result = inside("run", "train.py", "--spec", "c.yml", "--transport", "ssh", "--env", "MY_KEY=hush", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "worker 0 on nowhere.invalid by ssh\n" in result.stdout
    assert "  in       '~/x'\n" in result.stdout
    assert "  brings   train.py, model.py, unless the host has the same at the same path\n" in result.stdout
    assert "MY_KEY='***'\n" in result.stdout
    assert "hush" not in result.stdout
    assert "  env      PATH=" not in result.stdout


def test_restarts_are_asked_for_by_an_option(shell, inside):
    shell.write(STEP + "import os; raise SystemExit(3 if os.environ['AUTODIST_ATTEMPT'] == '0' else 0)")
    result = shell("run", "train.py", "--max-restarts", "1")
    assert result.returncode == 0, result.stderr
    assert "autodist: restart 1 of 1 in 1 s" in result.stderr
    assert inside("run", "train.py", "--max-restarts", "-1").returncode == 2


def test_help_has_its_options_in_groups(inside):
    text = inside("run", "--help").stdout
    for title, option in (("Options", "--strategy"), ("Cluster", "--spec"), ("Other machines", "--transport")):
        section = text[text.index(f"\n{title}:\n") :].partition("\n\n")[0]
        assert f"  {option}" in section
    assert text.count("\nOptions:\n") == 1


def test_seed_and_run_dir(shell, inside):
    shell.write(STEP + "import random, os; print(random.random(), os.environ['AUTODIST_SEED'])")
    first = shell("run", "train.py", "--seed", "3", "--run-dir", "out/1").stdout
    assert first.endswith(" 3\n")
    assert shell("run", "train.py", "--seed", "3", "--run-dir", "out/2").stdout == first
    assert shell("run", "train.py", "--run-dir", "out/3").stdout != first
    assert (shell.directory / "out" / "1" / "summary.json").is_file()
    result = inside("run", "train.py", "--run-dir", "out/1")
    assert (result.returncode, "is not empty" in result.stderr) == (2, True)


def interrupt(process, times=1):
    for _ in range(times):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)


def test_ctrl_c_leaves_nothing(shell):
    shell.write(STEP + READY + "time.sleep(60)")
    with shell.start("run", "train.py", "-n", "2") as process:
        shell.wait_for("ready0")
        shell.wait_for("ready1")
        interrupt(process)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "autodist: stopping 2 workers: their scripts may save for up to 60 s; press again to kill\n" in errors
    assert "Traceback" not in errors
    assert shell.left() == []


def test_second_ctrl_c_kills(shell):
    deaf = "import signal\nfor signum in (signal.SIGINT, signal.SIGTERM): signal.signal(signum, signal.SIG_IGN)\n"
    shell.write(STEP + deaf + READY + "time.sleep(60)")
    with shell.start("run", "train.py", "-n", "2", "--grace", "50") as process:
        shell.wait_for("ready0")
        shell.wait_for("ready1")
        began = time.monotonic()
        interrupt(process)
        shell.wait_for_text("stopping", "runs/*/status.json")  # two signals at once would be one
        interrupt(process)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - began < 40
    assert shell.left() == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_other_signals_end_the_run_too(shell, signum):
    shell.write(STEP + READY + "time.sleep(60)")
    with shell.start("run", "train.py") as process:
        shell.wait_for("ready0")
        os.kill(process.pid, signum)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signum
    assert shell.left() == []


def test_killed_launcher_leaves_nothing(shell):
    shell.write(
        STEP + "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '300'])\nif os.fork() == 0: time.sleep(300)\n" + READY + "time.sleep(60)"
    )  # fmt: skip
    with shell.start("run", "train.py", "-n", "2", "--grace", "1") as process:
        shell.wait_for("ready0")
        shell.wait_for("ready1")
        assert len(marked(shell.mark)) >= 6
        process.kill()
        process.communicate(timeout=60)
    assert shell.left() == []


def test_hint_for_a_script_that_is_no_training(shell):
    shell.write("print('hello')")
    result = shell("run", "train.py", "-n", "2")
    assert result.returncode == 1
    assert "without a training step" in result.stderr
    assert "with autodist.scope()" in result.stderr
    result = shell("run", "train.py")
    assert result.returncode == 0
    assert "warning: the script ended without a training step" in result.stderr


def test_reader_of_the_output_may_go_away(shell):
    shell.write(STEP + "for i in range(100000): print(i)")
    with shell.start("run", "train.py") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert "Traceback" not in process.stderr.read()
    assert (shell.directory / "runs/latest/logs/0.log").read_text().splitlines()[-1] == "99999"


def test_reader_of_the_output_may_take_its_time(shell):
    """What nobody has read yet waits in the worker that wrote it, not in the launcher's memory."""
    shell.write(STEP + "open('begun', 'w')\nfor i in range(800): print(i, 'x' * 60000)\nopen('written', 'w')")
    with shell.start("run", "train.py") as process:
        shell.wait_for("begun")  # a line read here would take a part of the next one away from `communicate`
        launcher = psutil.Process(process.pid)
        before = launcher.memory_info().rss
        time.sleep(3.0)
        assert launcher.memory_info().rss - before < 24e6
        assert not (shell.directory / "written").exists()
        lines, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [line.split()[1] for line in lines.splitlines()] == [str(i) for i in range(800)]


def test_interruption_does_not_wait_for_a_reader(shell):
    shell.write(STEP + "while True: print('x' * 60000)")
    with shell.start("run", "train.py", "--grace", "1") as process:
        process.stdout.readline()
        time.sleep(2.0)
        interrupt(process)
        deadline = time.monotonic() + 20.0
        while any(not line.startswith(f"{process.pid} ") for line in marked(shell.mark)):
            assert time.monotonic() < deadline, marked(shell.mark)
            time.sleep(0.05)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert shell.left() == []


def test_pasted_command_runs_again(shell):
    shell.write(STEP + "import sys; print(sys.argv)", "tr ain.py")
    shell("run", "tr ain.py", "--", "a'b")
    command = (shell.directory / "runs" / "latest" / "command.txt").read_text()
    result = subprocess.run(["sh", "-c", command], cwd="/", env=shell.env, capture_output=True, text=True, timeout=60)
    assert result.stdout == "[0] ['tr ain.py', \"a'b\"]\n", result.stderr


KERAS = """
import autodist, keras, numpy as np
with autodist.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(np.ones((640, 4)), np.ones((640, 1)), batch_size=16, epochs=2, verbose=1)
model.save("model.keras")
"""


@pytest.mark.slow
def test_keras_on_the_console(shell):
    shell.write(KERAS)
    result = shell("run", "train.py", "-n", "2", "--seed", "1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines.count("[0] Epoch 1/2") == lines.count("[1] Epoch 2/2") == 1
    losses = [(line[:3], line.partition("loss")[2]) for line in lines if re.match(r"\[\d\] 40/40 ", line)]
    assert len(losses) == 4, lines
    assert {loss for rank, loss in losses if rank == "[0]"} == {loss for rank, loss in losses if rank == "[1]"}
    assert len(lines) < 20
    assert "\x1b" not in result.stdout
    assert "\r" not in result.stdout
    assert "oneDNN" not in result.stderr
    assert (shell.directory / "model.keras").is_file()
    assert "[1] `Model.save` writes nothing on worker 1" in result.stderr
