"""Real worker processes, small scripts, no TensorFlow."""

import importlib.util
import json
import signal
import threading
import time

import pytest

from autodist.launch import FailureKind, Job, LocalLauncher
from autodist.resource_spec import Host, ResourceSpec

STEP = "w.steps_taken += 1\n"


def test_environment_logs_and_run_directory(bench):
    result = bench.run(
        "print('rank', os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'], sys.argv[1:])\n"
        "print('to stderr', file=sys.stderr)\n"
        "assert os.environ['MASTER_PORT'] == str(w.coordinator.port) != '0'\n"
        "w.coordinator.put(f'from {w.rank}', b'hello')\n"
        "print(w.coordinator.get(f'from {1 - w.rank}', 10.0))\n"
        "w.coordinator.barrier('end', 10.0)\n" + STEP,
        script_args=("--x", "1 2"),
        seed=7,
    )
    assert result.exit_code == 0
    assert result.failure is None
    for rank in (0, 1):
        assert sorted(bench.observer.texts(rank)) == [
            "b'hello'",
            f"rank {rank} {rank} 2 ['--x', '1 2']",
            "to stderr",
        ]
        log = (result.run_dir / "logs" / f"{rank}.log").read_text()
        assert sorted(log.splitlines()) == sorted(bench.observer.texts(rank))
    assert {line.is_error for _, line in bench.observer.lines if line.text == "to stderr"} == {True}
    assert {path.name for path in result.run_dir.iterdir()} == {
        "spec.json", "command.txt", "env.json", "logs", "events.jsonl", "status.json", "summary.json",
    }  # fmt: skip
    assert (result.run_dir.parent / "latest").resolve() == result.run_dir
    assert ResourceSpec.from_json((result.run_dir / "spec.json").read_text()).world_size == 2
    summary = json.loads((result.run_dir / "summary.json").read_text())
    assert summary["exit_code"] == 0
    assert summary["steps"] == {"0": 1, "1": 1}
    assert bench.left() == []


def test_token_is_nowhere_but_in_the_environment(bench):
    result = bench.run("print('argv', sys.argv, open('/proc/self/cmdline').read())\n" + STEP)
    kept = b"".join(path.read_bytes() for path in result.run_dir.rglob("*") if path.is_file())
    probe = bench.run(f"open({str(bench.directory / 'token')!r}, 'w').write(os.environ['AUTODIST_TOKEN'])\n" + STEP)
    token = (bench.directory / "token").read_bytes()
    assert len(token) >= 32
    assert token not in kept
    assert token not in b"".join(path.read_bytes() for path in probe.run_dir.rglob("*") if path.is_file())
    assert json.loads((probe.run_dir / "env.json").read_text())["AUTODIST_TOKEN"] == "***"
    assert "AUTODIST_TOKEN" in (probe.run_dir / "env.json").read_text()


def test_first_failing_rank_is_named_and_others_are_stopped(bench):
    result = bench.run(
        STEP + "if w.rank == 1:\n    [print('line', i) for i in range(30)]\n    raise ValueError('only here')\n"
        "time.sleep(60)",
        workers=3,
    )
    failure = result.failure
    assert result.exit_code == 1
    assert (failure.kind, failure.rank, failure.host, failure.exit_code) == (FailureKind.FAILED, 1, "localhost#1", 1)
    assert "ValueError: only here" in failure.message
    assert failure.log_path == result.run_dir / "logs" / "1.log"
    script = bench.directory / "train.py"
    assert failure.message == f"worker 1 ended with exit code 1 at {failure.place}: ValueError: only here"
    assert failure.trace == (f"{failure.place}  raise ValueError('only here')",)
    assert failure.place == f"{script}:7"
    assert (failure.tail, failure.is_everywhere) == ((), False)
    log = failure.log_path.read_text().splitlines()
    assert log[-5:-2] == ["line 29", "Traceback (most recent call last):", f'  File "{script}", line 7, in <module>']
    assert log[-1] == "ValueError: only here"
    assert [line.text for rank, line in bench.observer.lines if rank == 1 and line.is_last_word] == log[-4:]
    assert result.duration_s < 50
    assert bench.left() == []


def test_waiting_workers_do_not_hide_the_cause(bench):
    result = bench.run(
        STEP + "if w.rank < 2: w.coordinator.put(f'up {w.rank}', b'')\n"
        "else:\n    for rank in range(2): w.coordinator.get(f'up {rank}', 60.0)\n    raise KeyError('the cause')\n"
        "w.coordinator.barrier('never complete', 60.0)",
        workers=3,
    )
    assert result.failure.rank == 2
    assert "the cause" in result.failure.message
    assert "stopped because worker 2 failed" in "".join(bench.observer.texts(0))


@pytest.mark.parametrize(
    "code", [pytest.param(3, marks=pytest.mark.slow), 124, pytest.param(255, marks=pytest.mark.slow)]
)
def test_exit_code_of_the_worker_is_passed_on(bench, code):
    result = bench.run(STEP + f"sys.exit({code} if w.rank == 0 else 0)")
    assert result.exit_code == code
    assert result.failure.exit_code == code


def test_abrupt_exit_without_a_word(bench):
    chatter = "print('I0000 00:00:1795 88 port.cc:153] oneDNN custom operations are on', file=sys.stderr, flush=True)\n"
    leave = (
        "if w.rank == 1:\n    print('no more data', flush=True)\n    time.sleep(0.3)\n    "
        + chatter
        + "    os._exit(9)\n"
    )
    result = bench.run(STEP + leave + "time.sleep(60)")
    assert (result.exit_code, result.failure.rank, result.failure.exit_code) == (9, 1, 9)
    assert result.failure.tail == ("no more data",)


def test_death_by_signal_is_named_before_its_consequences(bench):
    result = bench.run(
        STEP + "w.coordinator.put(str(w.rank), str(os.getpid()).encode())\n"
        "if w.rank == 0:\n    os.kill(int(w.coordinator.get('1', 10.0)), signal.SIGKILL)\n    raise OSError('lost 1')\n"
        "time.sleep(60)"
    )
    assert (result.exit_code, result.failure.rank, result.failure.signal) == (1, 1, "SIGKILL")
    assert "memory" in result.failure.hint


def test_crash_in_native_code_leaves_its_stack(bench):
    result = bench.run(STEP + "import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()", workers=1)
    assert result.failure.signal == "SIGSEGV"
    place = f"{bench.directory / 'train.py'}:6"
    assert result.failure.message == f"worker 0 ended with signal SIGSEGV at {place}"
    assert "in crash" in "".join(result.failure.tail)
    assert not [line for line in result.failure.tail if line.startswith(("Thread", "Extension modules"))]


def test_worker_that_ignores_term_is_killed_after_the_grace(bench):
    began = time.monotonic()
    result = bench.run(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEP + "w.coordinator.barrier('ready', 40.0)\n"
        "if w.rank == 0: raise ValueError\nwhile True: time.sleep(1)",
        grace_s=1.0,
    )
    assert result.failure.rank == 0
    assert 1.0 <= time.monotonic() - began < 50.0
    assert any(notice.startswith("stopping 1 worker (grace 1 s") for notice in bench.observer.notices)
    assert bench.left() == []


@pytest.mark.parametrize("ending", [pytest.param("pass", marks=pytest.mark.slow), "raise ValueError", "os._exit(0)"])
def test_children_of_workers_end_with_the_run(bench, ending):
    result = bench.run(
        STEP + "import subprocess\n"
        "subprocess.Popen(['sleep', '300'])\n"
        "subprocess.Popen(['sh', '-c', 'trap : TERM; while :; do sleep 300; done'])\n"
        "if os.fork() == 0:\n    os.setpgid(0, 0)\n    time.sleep(300)\n" + ending,
        grace_s=0.5,
    )
    assert result.exit_code == (1 if "raise" in ending else 0)
    assert bench.left() == []


def test_processes_of_others_are_left_alone(bench):
    import subprocess

    bystander = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        bench.run(STEP + "raise ValueError")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_stall_is_found_and_named_with_its_stack(bench):
    result = bench.run(
        "def waits_for_godot():\n    time.sleep(60)\n" + STEP + "if w.rank == 1: waits_for_godot()\n"
        "for _ in range(600):\n    time.sleep(0.1)\n    " + STEP,
        stall_timeout_s=1.5,
    )
    assert result.exit_code == 124
    assert (result.failure.kind, result.failure.rank) == (FailureKind.STALLED, 1)
    assert "after 1 step" in result.failure.message
    assert "--stall-timeout" in result.failure.hint
    assert "waits_for_godot" in "\n".join(result.failure.tail)
    assert bench.left() == []


def test_start_that_takes_too_long(bench):
    result = bench.run("def loads_for_ever(): time.sleep(60)\nloads_for_ever()", start_timeout_s=15.0)
    assert (result.exit_code, result.failure.kind) == (124, FailureKind.NOT_STARTED)
    assert "nor did worker 1" in result.failure.message
    assert "loads_for_ever" in "\n".join(result.failure.tail)


def test_worker_that_ends_early_is_named(bench):
    result = bench.run(
        STEP + "if w.rank == 1: sys.exit()\nw.in_step = True\ntime.sleep(60)", workers=3, finish_timeout_s=1.0
    )
    assert (result.exit_code, result.failure.kind, result.failure.rank) == (124, FailureKind.ENDED_EARLY, 1)
    assert "worker 1 ended" in result.failure.message
    assert "workers 0, 2 made no step" in result.failure.message


def test_chief_may_save_longer_than_the_finish_timeout(bench):
    result = bench.run(
        STEP + "w.coordinator.report(1, False)\nw.in_step = False\nw.coordinator.barrier('end', 20.0)\n"
        "if w.rank == 0: time.sleep(2.5)",
        finish_timeout_s=0.5,
    )
    assert result.exit_code == 0


def test_script_without_a_training_step(bench):
    result = bench.run("print('hello')", workers=3)
    assert result.exit_code == 1
    assert "without a training step" in result.failure.message
    assert "3 copies of it ran side by side" in result.failure.message
    assert bench.run("print('hello')", workers=1).exit_code == 0
    assert any("warning: the script ended without a training step" in text for text in bench.observer.texts(0))


def test_two_runs_side_by_side_do_not_meet(bench):
    results = {}
    script = bench.script(
        "w.coordinator.put('who', sys.argv[1].encode()) if w.rank == 0 else None\n"
        "w.coordinator.barrier('both', 20.0)\nassert w.coordinator.get('who', 5.0) == sys.argv[1].encode()\n" + STEP
    )

    def launch(name: str) -> None:
        job = Job(script, ResourceSpec.local(2, 1), (name,), run_dir=bench.directory / name)
        results[name] = LocalLauncher().launch(job)

    threads = [threading.Thread(target=launch, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert {name: result.exit_code for name, result in results.items()} == {"a": 0, "b": 0}


def test_hostile_paths_and_arguments(bench):
    name = 'it\'s; a "train" $(touch pwned) \n&.py'
    script = bench.script("import helper; print(repr(sys.argv)); print(sys.path[0])\n" + STEP, f"d ir;'/{name}")
    (script.parent / "helper.py").write_text("")
    job = Job(
        script, ResourceSpec.local(2, 1), ("a b", "'", '"', ";", "$HOME", "--", "-x", "", "é\n"),
        run_dir=bench.directory / "out; it's \"here\"",
    )  # fmt: skip
    bench.run(STEP)
    result = LocalLauncher(bench.observer).launch(job)
    assert result.exit_code == 0, result
    assert repr([str(script), *job.script_args]) in bench.observer.texts(1)
    assert str(script.parent) in bench.observer.texts(1)
    assert not list(bench.directory.rglob("pwned"))
    assert (job.run_dir / "logs" / "1.log").is_file()


def test_keras_progress_bars_become_their_last_state(bench):
    result = bench.run(
        "for i in range(1, 51):\n    sys.stdout.write('\\b' * 30 + f'\\r{i}/50 ====')\n    sys.stdout.flush()\n"
        "    time.sleep(0.002)\nsys.stdout.write('\\n'); sys.stdout.write('no end')\n" + STEP,
        workers=1,
    )
    assert (result.run_dir / "logs" / "0.log").read_text() == "50/50 ====\nno end\n"
    assert [line.text for _, line in bench.observer.lines if not line.is_update] == ["50/50 ====", "no end"]


def test_much_output_of_many_workers(bench):
    result = bench.run("for i in range(20000): print(i)\n" + STEP, workers=3)
    for rank in range(3):
        assert (result.run_dir / "logs" / f"{rank}.log").read_text().split() == [str(i) for i in range(20000)]
        assert bench.observer.texts(rank) == [str(i) for i in range(20000)]


def test_escaped_process_does_not_keep_the_run(bench):
    import subprocess

    began = time.monotonic()
    result = bench.run(
        STEP + "import subprocess\np = subprocess.Popen(['sleep', '100'], start_new_session=True)\nprint(p.pid)",
        workers=1,
    )
    assert result.exit_code == 0
    assert time.monotonic() - began < 50.0
    subprocess.run(["kill", *bench.observer.texts(0)], check=False)


def test_interruption_in_the_main_thread(bench):
    main_thread = threading.main_thread()
    before = signal.getsignal(signal.SIGINT)

    def interrupt():
        deadline = time.monotonic() + 60
        while not all(bench.observer.texts(rank) for rank in (0, 1)) and time.monotonic() < deadline:
            time.sleep(0.05)
        signal.pthread_kill(main_thread.ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = bench.run(STEP + "print('here')\ntime.sleep(90)")
    assert result.exit_code == 130
    assert result.failure is None
    assert bench.observer.notices == ["stopping 2 workers: their scripts may save for up to 60 s; press again to kill"]
    assert signal.getsignal(signal.SIGINT) is before
    assert bench.left() == []


def test_error_of_an_observer_leaves_nothing(bench, monkeypatch):
    def broken(text):
        raise RuntimeError("observer")

    job = Job(bench.script("raise ValueError if w.rank == 0 else time.sleep(60)"), ResourceSpec.local(2, 1))
    monkeypatch.setattr(bench.observer, "notice", broken)
    monkeypatch.setenv("AUTODIST_TESTS_MARK", bench.mark)
    with pytest.raises(RuntimeError, match="observer"):
        LocalLauncher(bench.observer).launch(job)
    assert bench.left() == []


def test_every_job_draws_a_seed(bench):
    """As `autodist run` does: workers without a common seed would not start alike."""
    seeds = {Job(bench.script(STEP), ResourceSpec.local(2, 1)).seed for _ in range(3)}
    assert len(seeds) == 3
    assert all(isinstance(seed, int) for seed in seeds)
    result = bench.run("print(os.environ['AUTODIST_SEED'])\n" + STEP)
    assert bench.observer.texts(0) == bench.observer.texts(1) == [str(bench.observer.infos[0].seed)]
    assert json.loads((result.run_dir / "env.json").read_text())["AUTODIST_SEED"] == bench.observer.texts(0)[0]


def test_environment_of_a_host_wins(bench):
    script = bench.script("print(os.environ['A'], os.environ['B'], os.environ['CUDA_VISIBLE_DEVICES'])\n" + STEP)
    hosts = (Host("a", "localhost", env=(("A", "host"),), gpus=(2, 3)), Host("b", "localhost"))
    LocalLauncher(bench.observer).launch(Job(script, ResourceSpec(hosts), env={"A": "job", "B": "job"}))
    assert bench.observer.texts(0) == ["host job 2,3"]
    assert bench.observer.texts(1) == ["job job -1"]


@pytest.mark.slow  # all trainings with Horovod need it
@pytest.mark.horovod
def test_horovod_finds_its_rendezvous(bench):
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("Horovod is not installed")
    result = bench.run(
        "import horovod.tensorflow as hvd, tensorflow as tf\nhvd.init()\nhvd.shutdown()\nhvd.init()\n"
        "print('sum', float(hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum)), hvd.size())\n" + STEP,
        start_timeout_s=120.0,
    )
    assert result.exit_code == 0, result
    assert "sum 3.0 2" in bench.observer.texts(0)
    assert "sum 3.0 2" in bench.observer.texts(1)
