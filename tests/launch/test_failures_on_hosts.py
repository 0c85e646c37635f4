"""Four machines, `autodist run` at a fifth, and everything that can break: who it was is told, and nothing is left."""

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from autodist.testing import EmulatedCluster

from .clusters import TRAINING

CHECKOUT = Path(__file__).parts  # the hosts share it, perhaps below their /tmp

pytestmark = pytest.mark.emulated

HOSTS = ("h1", "h2", "h3", "h4")
ALL = (*HOSTS, "head")
HOMES = {"root": "root", "trainer": "home/trainer"}
GRACE_S = 1.0
LOST = "the host `h3` of worker 2 was lost"

# Every worker has what outlives careless launchers: a child in a session of its own, one that ignores what asks it to
# end, and a daemon. Worker 2, on h3, is the one that something happens to.
SCRIPT = """
import ctypes, os, signal, subprocess, sys, time
from autodist.coordination import current_worker

worker, what = current_worker(), sys.argv[1]
ASKING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def ignore():
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)

subprocess.Popen(["setsid", "nohup", "sleep", "3001"], stdout=subprocess.DEVNULL)
subprocess.Popen(["sleep", "3002"], preexec_fn=ignore)
if os.fork() == 0:
    os.setsid()
    ignore()
    if os.fork() == 0:
        time.sleep(3003)
    os._exit(0)
if what.endswith("ignoring TERM"):
    ignore()

worker.coordinator.barrier("up", 120)
print("up", os.getpid(), flush=True)
worker.coordinator.barrier("all are", 120)
if worker.rank == 2:
    for number in range(10_000 * what.endswith("much")):
        print("x" * 100, "much", flush=True)
    if what == "segfault":
        ctypes.string_at(0)
    if what.startswith("exit"):
        sys.exit(3)
    if what == "exception":
        raise ValueError("not a number")
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
time.sleep(3000)
"""


@pytest.fixture(scope="module")
def cluster():
    with EmulatedCluster(4) as made:
        for home in HOMES.values():
            (made.disk("head") / home / "train.py").write_text(SCRIPT)
            (made.disk("head") / home / "train_by_steps.py").write_text(TRAINING)
            (made.disk("head") / home / "cluster.yml").write_text("nodes: [{address: 'h[1-4]'}]\n")
        yield made


@dataclass
class Run:
    """A run that has been started at `head`."""

    cluster: EmulatedCluster
    process: subprocess.Popen
    output: Path
    user: str

    def wait_until_up(self):
        assert within(120, lambda: self.told.count("up ") == 4 or self.process.poll() is not None)
        assert self.told.count("up ") == 4, self.told
        for host in HOSTS:  # the worker, its three children, and guard and holder
            assert within(10, lambda host=host: len(self.cluster.processes(host)) == 6), self.cluster.processes(host)

    @property
    def told(self):
        return self.output.read_text()

    def launcher(self):
        found = [pid for pid, line in self.cluster.processes("head").items() if "autodist run" in line]
        assert len(found) == 1, self.cluster.processes("head")
        return found[0]

    def stop_for(self, seconds):
        """Stop the launcher as Ctrl-Z does, and have it go on."""
        launcher = self.launcher()
        kill(launcher, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in (launcher, self.process.pid):  # nsenter stops itself with what it waits for
            kill(pid, signal.SIGCONT)

    def end(self, timeout_s=60):
        """Its exit code, once nothing is left anywhere."""
        code = self.process.wait(timeout_s)
        self.check_that_nothing_is_left()
        return code

    def check_that_nothing_is_left(self, hosts=ALL):
        # Who lost its launcher ends a moment after it.
        assert within(20, lambda: not any(self.cluster.processes(host) for host in hosts)), {
            host: self.cluster.processes(host) for host in hosts
        }
        for host in hosts:
            looking = ["sh", "-c", "ls -A /tmp ~/.cache/autodist/runs 2>/dev/null"]
            left = self.cluster.run(host, looking, user=self.user).stdout.split()
            assert [name for name in left if not name.endswith(":") and name not in CHECKOUT] == [], host

    def check_failure(self, *, code, rank, host, how, said=""):
        """The first failing worker is named on the console and in the summary."""
        assert self.process.returncode == code, self.told
        assert re.search(rf"first failure +worker {rank} of 4 on {host}.*{how}", self.told), self.told
        assert said in self.told
        latest = self.cluster.disk("head") / HOMES[self.user] / "runs"
        run = latest / sorted(path.name for path in latest.iterdir() if path.name != "latest")[-1]
        failure = json.loads((run / "summary.json").read_text())["failure"]
        assert (failure["rank"], failure["host"]) == (rank, host)
        log = self.cluster.disk("head") / failure["log"].removeprefix("/")
        assert "up" in log.read_text()
        assert re.search(rf"its log +.*/logs/{rank}.log", self.told)
        return failure


@pytest.fixture
def start(cluster, tmp_path):
    started = []

    def start(what="", *options, grace_s=GRACE_S, user="root", script="train.py", silence_s=3.0):
        output = tmp_path / f"output{len(started)}"
        options = ["--grace", str(grace_s), "--host-timeout", str(silence_s), *options]
        command = ["autodist", "run", script, "--no-check-versions", *options, "--", what]
        with output.open("wb") as file:
            process = subprocess.Popen(cluster.command("head", command, user=user), stdout=file, stderr=file)
        run = Run(cluster, process, output, user)
        started.append(run)
        return run

    yield start
    for run in started:
        if run.process.poll() is None:
            for host in ALL:
                for pid in cluster.processes(host):
                    kill(pid)
            run.process.wait(30)


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def within(timeout_s, condition):
    deadline = time.monotonic() + timeout_s
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


# --- workers


@pytest.mark.parametrize(
    ("what", "code", "how", "said"),
    [
        ("segfault", 1, "SIGSEGV", "Fatal Python error: Segmentation fault"),
        pytest.param("exit", 3, "exit code 3", "", marks=pytest.mark.slow),
        pytest.param("exception", 1, "exit code 1", "ValueError: not a number", marks=pytest.mark.slow),
        pytest.param("killed", 1, "SIGKILL", "memory ran out", marks=pytest.mark.slow),
        ("exit among those ignoring TERM", 3, "exit code 3", ""),
    ],
)
def test_a_worker_that_ends_is_named(start, what, code, how, said):
    run = start(what)
    run.end(120)
    run.check_failure(code=code, rank=2, host="h3", how=how, said=said)


@pytest.mark.slow
def test_the_same_over_the_systems_own_ssh(start):
    run = start("exit", "--transport", "ssh")
    assert run.end(120) == 3
    run.check_failure(code=3, rank=2, host="h3", how="exit code 3")


# --- the launcher


@pytest.mark.parametrize("options", [[], pytest.param(["--transport", "ssh"], marks=pytest.mark.slow)])
def test_nothing_outlives_a_launcher_that_is_killed(start, options):
    run = start("", *options)
    run.wait_until_up()
    kill(run.launcher())
    assert run.end() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_launcher_may_end_at_any_moment(start, number):
    for moment in range(12):
        run = start()
        assert within(
            20, lambda run=run: any("autodist run" in line for line in run.cluster.processes("head").values())
        )
        time.sleep(0.3 * moment)
        for pid, line in run.cluster.processes("head").items():
            if "autodist run" in line:
                kill(pid, number)
        code = run.end()
        assert code == -number or (number == signal.SIGINT and code == 130), (moment, run.told)


def test_one_interruption_ends_everything_within_the_grace_time(start):
    run = start()
    run.wait_until_up()
    kill(run.launcher(), signal.SIGINT)
    assert run.end() == 130
    assert "stopping 4 workers: their scripts may save for up to 60 s; press again to kill" in run.told


def test_a_second_interruption_does_not_wait(start):
    run = start("all ignoring TERM", grace_s=300)
    run.wait_until_up()
    launcher = run.launcher()
    kill(launcher, signal.SIGINT)
    assert within(20, lambda: "stopping" in run.told)
    kill(launcher, signal.SIGINT)
    assert run.end() == 130


# --- machines


@pytest.mark.parametrize(
    ("process", "user", "said"),
    [
        ("autodist-guard", "trainer", "first process was killed"),
        ("autodist-holder", "trainer", "second process ended with signal 9"),
        # root's workers are in a PID namespace, which ends with its first process.
        pytest.param("autodist-holder", "root", "second process ended with signal 9", marks=pytest.mark.slow),
    ],
)
def test_an_agent_that_is_killed_is_named(start, process, user, said):
    run = start(user=user)
    run.wait_until_up()
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in run.cluster.processes("h3")}
    for pid in [pid for pid, name in names.items() if name == process[:15]]:
        kill(pid)
    run.end()
    run.check_failure(code=1, rank=2, host="h3", how="", said=said)


@pytest.mark.parametrize("options", [[], pytest.param(["--transport", "ssh"], marks=pytest.mark.slow)])
def test_a_machine_that_is_cut_off_is_named_and_cleans_up_by_itself(start, options):
    run = start("", *options)
    run.wait_until_up()
    run.cluster.cut("h3")
    try:
        run.end()
        run.check_failure(
            code=1, rank=2, host="h3", how="lost with its host", said="the host `h3` of worker 2 was lost"
        )
    finally:
        run.cluster.heal("h3")


@pytest.mark.slow  # quick are the machine that is found to blame, and the one that is cut off
def test_a_machine_that_crashes_is_named(start):
    run = start()
    run.wait_until_up()
    run.cluster.crash("h3")
    try:
        assert run.process.wait(60) == 1
        run.check_that_nothing_is_left(("h1", "h2", "h4", "head"))
        run.check_failure(
            code=1, rank=2, host="h3", how="lost with its host", said="the host `h3` of worker 2 was lost"
        )
    finally:
        run.cluster.restart("h3")


def test_a_short_silence_interrupts_nothing_and_a_launcher_that_was_stopped_says_so(start, cluster):
    run = start(silence_s=30.0)
    run.wait_until_up()
    cluster.cut("h3")
    time.sleep(6)
    cluster.heal("h3")
    run.stop_for(10)
    assert within(10, lambda: "the launcher did not run for 10 s: it was stopped, as by Ctrl-Z" in run.told), run.told
    time.sleep(2)
    assert run.process.poll() is None, run.told
    kill(run.launcher(), signal.SIGINT)
    assert run.end() == 130


def test_a_launcher_that_was_stopped_for_long_blames_no_host_alone(start):
    run = start()
    run.wait_until_up()
    run.stop_for(8)
    assert run.end() == 1
    assert "the launcher itself did not run for" in run.told


def test_a_machine_that_crashed_is_found_to_blame_in_seconds_once_another_worker_has_failed(start, cluster):
    run = start(silence_s=200.0)
    run.wait_until_up()
    cluster.crash("h3")
    try:
        for pid, line in cluster.processes("h2").items():
            if "autodist.worker" in line:
                kill(pid)
        assert run.process.wait(40) == 1
        run.check_failure(code=1, rank=2, host="h3", how="lost with its host", said=LOST)
        run.check_that_nothing_is_left(("h1", "h2", "h4", "head"))
    finally:
        cluster.restart("h3")


def test_a_slow_link_is_no_lost_machine(start, cluster):
    cluster.shape("h3", "10mbit")
    try:
        cluster.run("head", ["dd", "if=/dev/urandom", "of=/root/large", "bs=1M", "count=4"])
        began = time.monotonic()
        run = start("exit much", "--bring", "large")
        run.end(120)
        assert time.monotonic() - began > 4.0  # the file alone needs 3.3 s
        failure = run.check_failure(code=3, rank=2, host="h3", how="exit code 3")
        log = cluster.disk("head") / failure["log"].removeprefix("/")
        assert log.read_text().count("much\n") == 10_000
    finally:
        cluster.shape("h3", None)


@pytest.mark.slow
def test_machines_that_are_not_there_are_all_named_before_anything_starts(start, cluster):
    for host in ("h2", "h4"):
        cluster.crash(host)
    try:
        run = start("", "--connect-timeout", "10")
        assert run.process.wait(100) == 1
        assert "can't log in to `h2`" in run.told
        assert "can't log in to `h4`" in run.told
        assert "`h1`" not in run.told
        run.check_that_nothing_is_left(("h1", "h3", "head"))
    finally:
        for host in ("h2", "h4"):
            cluster.restart(host)


@pytest.mark.slow
@pytest.mark.parametrize("event", ["crash", "cut"])
@pytest.mark.parametrize("strategy", ["PSLoadBalancing", "AllReduce(communicator='collective')"])
def test_a_machine_that_is_lost_between_steps_is_named_before_those_that_miss_it(start, cluster, event, strategy):
    run = start("", "--allow-open-ports", "--strategy", strategy, script="train_by_steps.py")
    assert within(280, lambda: "step 5" in run.told or run.process.poll() is not None)
    assert run.process.poll() is None, run.told
    getattr(cluster, event)("h3")
    try:
        assert run.process.wait(60) == 1
        run.check_failure(
            code=1, rank=2, host="h3", how="lost with its host", said="the host `h3` of worker 2 was lost"
        )
        assert within(20, lambda: not any(cluster.processes(host) for host in ALL))
    finally:
        cluster.heal("h3") if event == "cut" else cluster.restart("h3")
