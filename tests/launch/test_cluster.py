"""Workers on other machines: emulated hosts with their own sshd, disk and processes; no TensorFlow unless said."""

import ast
import json
import math
import os
import re
import signal
import sys
import time

import pytest

from tests.strategies_by_carrier import ONE_PER_CARRIER

from .clusters import HEAD, WORK, Person, lines_of

pytestmark = pytest.mark.emulated


@pytest.fixture(scope="module")
def cluster():
    from autodist.testing import EmulatedCluster

    with EmulatedCluster(4) as cluster:
        yield cluster


@pytest.fixture
def person(cluster):
    """Somebody whose runs leave nothing on the hosts."""
    for host in ("head", "h1", "h2", "h3", "h4"):
        cluster.run(host, ["rm", "-rf", WORK, "/root/data"])
    person = Person(cluster, ("h1", "h2", "h3", "h4"))
    yield person
    assert person.left() == []


def test_hosts_with_one_kernel_share_its_processors(person):
    person.write("train.py", HEAD + "print(os.environ.get('TF_NUM_INTRAOP_THREADS'))\n")
    result = person.run("train.py", "-H", "h1,h2,h3,h4")
    assert result.returncode == 0, result.stderr
    cores = len(os.sched_getaffinity(0))
    share = "None" if cores == 1 else str(math.ceil(cores / 4))
    assert [lines_of(result.stdout, rank) for rank in range(4)] == [[share]] * 4
    told = json.loads((person.run_dir() / "spec.json").read_text())["hosts"]
    assert [host["cores_shared_by"] for host in told] == [4] * 4


NAME = 'it\'s; a "train" $(touch pwned) &.py'


def test_the_script_goes_there_and_what_belongs_to_the_run_comes_back(person):
    person.write(
        f"src/{NAME}",
        HEAD + "import helper, package.part\n"
        "print(repr(sys.argv[1:]), os.getcwd(), os.uname().nodename, helper.__file__)\n"
        "run = os.environ['AUTODIST_RUN_DIR']\nopen(f'{run}/from {w.rank}.txt', 'w').write(os.environ['MINE'])\n"
        "os.makedirs(f'{run}/deep', exist_ok=True); open(f'{run}/deep/same', 'w').write(str(w.rank))\n"
        "open('stays', 'w').close()\nassert 'SECRET_OF_HEAD' not in os.environ\n"
        "w.coordinator.put(str(w.rank), os.environ['AUTODIST_ADDRESS'].encode())\n"
        "print([w.coordinator.get(str(rank), 30.0).decode() for rank in range(w.world_size)])\n",
    )  # fmt: skip
    person.write("src/helper.py", "")
    person.write("src/package/__init__.py", "")
    person.write("src/package/part.py", "")
    person.write("plan.yml", '"*": {ps: {}}')
    result = person.run(
        f"src/{NAME}", "-H", "h1,h2", "--strategy", "plan.yml", "--env", "MINE=a 'b' $c",
        *("--", "x y", "$HOME", "'", "é\n"), env={"SECRET_OF_HEAD": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for rank, host in enumerate(("h1", "h2")):
        told, addresses = lines_of(result.stdout, rank)
        assert told.startswith(repr(["x y", "$HOME", "'", "é\n"]) + f" {WORK} {host} /root/.cache/autodist/runs/")
        assert addresses == "['10.77.0.1', '10.77.0.2']"
        assert (person.cluster.disk(host) / WORK[1:] / "stays").is_file()
        assert (person.run_dir() / f"from {rank}.txt").read_text() == "a 'b' $c"
    assert (person.run_dir() / "deep" / "same").read_text() == "0"
    assert (person.run_dir() / "strategy.yml").is_file()
    assert not list((person.cluster.disk("head") / WORK[1:]).rglob("pwned"))
    notices = [line for line in result.stderr.splitlines() if "connect" in line]
    assert notices[0] == "autodist: connecting to 2 hosts"
    assert notices[1].startswith("autodist: connected in ")
    assert notices[1].endswith(f" s; files that the script writes stay there, in `{WORK}`")
    assert [event["host"] for event in person.events() if event["event"] == "connected"] == ["h1", "h2"]
    assert result.stderr.splitlines()[-1].endswith(
        f"on h1 and 1 other host, in '{WORK}': `autodist fetch runs/{person.run_dir().name}` copies it"
    )
    fetched = person.call("fetch", "latest")
    assert fetched.returncode == 0, fetched.stderr
    assert fetched.stdout.count(f": 1 file, 0.0 MB of {WORK} in runs/{person.run_dir().name}/files/h") == 2
    assert (person.run_dir() / "files" / "h2" / "stays").is_file()


def test_what_is_there_already_stays_where_it_is_and_hosts_have_their_own_settings(person):
    text = (
        HEAD + "import module\nprint(__file__, module.name, os.getcwd(), os.environ['WHO'], os.environ['LOCAL_RANK'])\n"
    )
    person.write("train.py", text)
    person.write("module.py", "name = 'the same'")
    person.write("train.py", text, host="h1")
    person.write("module.py", "name = 'the same'", host="h1")
    person.write("train.py", text, host="h2")
    person.write("module.py", "name = 'an old one'", host="h2")
    person.write(
        "cluster.yml",
        "nodes:\n  - {address: h1, workers: 2, env: {WHO: one}}\n"
        "  - {address: h2, directory: ~/data/new, ssh_config: g}\n"
        "ssh: {g: {username: root, shared_envs: {WHO: $USER-two}}}\n",
    )
    result = person.run("train.py")
    assert result.returncode == 0, result.stderr
    assert lines_of(result.stdout, 0) == [f"{WORK}/train.py the same {WORK} one 0"]
    assert lines_of(result.stdout, 1) == [f"{WORK}/train.py the same {WORK} one 1"]
    [there] = lines_of(result.stdout, 2)
    assert there.startswith("/root/.cache/autodist/runs/")
    assert there.endswith("/code/train.py the same /root/data/new root-two 0")


def test_the_launching_machine_may_be_one_of_the_hosts(person):
    person.write(
        "train.py",
        HEAD + "import socket\nprint(__file__, os.environ['AUTODIST_ADDRESS'], os.environ['NODE_RANK'])\n"
        "server = socket.create_server((os.environ['AUTODIST_ADDRESS'], 7171))\n"
        "w.coordinator.put(f'at {w.rank}', os.environ['AUTODIST_ADDRESS'].encode())\n"
        "peer = w.coordinator.get(f'at {1 - w.rank}', 60.0).decode()\n"
        "connection = socket.create_connection((peer, 7171), timeout=30)\nw.coordinator.barrier('met', 60.0)\n"
        "open(os.environ['AUTODIST_RUN_DIR'] + f'/{w.rank}', 'w').close()\n",
    )
    result = person.run("train.py", "-H", "head,h1")
    assert result.returncode == 0, result.stderr
    assert lines_of(result.stdout, 0) == ["train.py 10.77.0.254 0"]
    [there] = lines_of(result.stdout, 1)
    assert there.endswith("/code/train.py 10.77.0.1 1")
    assert "connecting to 1 host\n" in result.stderr
    assert {"0", "1"} <= {path.name for path in person.run_dir().iterdir()}


def test_all_hosts_that_cannot_be_reached_are_told_at_once(person):
    person.write("train.py", HEAD)
    person.cluster.crash("h4")
    try:
        result = person.run("train.py", "-H", "h1,h4,nowhere.invalid", "--connect-timeout", "10")
    finally:
        person.cluster.restart("h4")
    assert result.returncode == 1
    assert "error: 2 of 3 machines have a problem\n" in result.stderr
    assert "`h4`" in result.stderr
    assert "`nowhere.invalid`" in result.stderr
    assert "hint: " in result.stderr
    assert json.loads((person.run_dir() / "summary.json").read_text())["exit_code"] == 1
    assert "started" not in [event["event"] for event in person.events()]


def test_a_file_that_is_on_the_launching_machine_only(person):
    person.write("data.txt", "here")
    person.write("train.py", HEAD + "open('data.txt')\n")
    result = person.run("train.py", "-H", "h1,h2", "--bring", "data.txt")
    assert result.returncode == 1
    assert "autodist: the script reads `data.txt`, which is not in the working directory on h1, h2: " in result.stderr
    assert re.search(
        r"hint: the script looked for it on `h[12]`.* `autodist run --bring PATH`, .* `Path\(__file__\).parent`",
        result.stderr,
    )
    person.write(
        "train.py", HEAD + "from pathlib import Path; print((Path(__file__).parent / 'data.txt').read_text())\n"
    )
    result = person.run("train.py", "-H", "h1,h2")  # what the script reads next to itself goes along
    assert sorted(result.stdout.splitlines()) == ["[0] here", "[1] here"]
    assert "which is not in the working directory" not in result.stderr


def test_different_software_is_told_before_anything_starts(person, tmp_path):
    person.write("/root/data/bare", f'#!/bin/sh\nexec {sys._base_executable} -I -S "$@"\n', host="h2")
    person.cluster.run("h2", ["chmod", "755", "/root/data/bare"])
    person.write("train.py", HEAD)
    person.write("cluster.yml", "nodes: [{address: h1}, {address: h2, python: /root/data/bare}]")
    result = person.run("train.py")
    assert result.returncode == 1
    assert "error: the hosts must have the same software\n" in result.stderr
    assert "not installed on h2" in result.stderr
    assert re.search(r"`\S+ -m pip install \"autodist-tf\[", result.stderr)
    assert "started" not in [event["event"] for event in person.events()]
    result = person.run("train.py", "--no-check-versions")
    assert (result.returncode, "No module named" in result.stderr) == (1, True)


def test_a_module_goes_there_with_its_packages(person):
    person.write("pkg/__init__.py", "")
    person.write("pkg/data.py", "VALUE = 42")
    person.write("beside.py", "")
    person.write(
        "pkg/train.py",
        HEAD + "import beside; from .data import VALUE; print(__package__, VALUE, sys.argv[1:])\n"
        "sys.stdout.flush(); w.coordinator.put(f'up {w.rank}', b'')\n"
        "if w.rank == 1:\n    w.coordinator.get('up 0', 60.0)\n    raise ValueError('only here')\ntime.sleep(120)",
    )
    result = person.run("-m", "pkg.train", "-H", "h1,h2", "--", "x")
    assert result.returncode == 1
    assert "[0] pkg 42 ['x']" in result.stdout.splitlines()
    assert "error: worker 1 ended with exit code 1 at " in result.stderr
    assert re.search(r" at pkg/train.py:\d+: ValueError: only here\n", result.stderr), result.stderr


def test_failure_is_told_with_its_host_and_all_are_stopped(person):
    person.write("train.py", HEAD + "if w.rank == 2: raise ValueError('only here')\ntime.sleep(120)")
    result = person.run("train.py", "-H", "h1,h2,h3")
    assert result.returncode == 1
    assert "first failure  worker 2 of 3 on h3, pid" in result.stderr
    assert re.search(r"error: worker 2 ended with exit code 1 at train.py:\d+: ValueError: only here", result.stderr)
    assert result.stderr.count("ValueError: only here") == 1


@pytest.mark.slow  # quick is the machine that is found to blame in test_failures_on_hosts.py
def test_a_host_that_dies_is_named_and_not_those_that_notice_it_first(person):
    person.write(
        "train.py",
        HEAD + "import socket\n"
        "if w.rank == 1:\n    server = socket.create_server((os.environ['AUTODIST_ADDRESS'], 7070))\n"
        "    w.coordinator.put('port', b'open'); peers = [server.accept() for _ in range(2)]\n"
        "    print('up', flush=True); time.sleep(120)\n"
        "w.coordinator.get('port', 60.0)\nconnection = socket.create_connection(('10.77.0.2', 7070))\n"
        # A dead host sends nothing, and a real communicator notices that by its own timeout.
        "print('up', flush=True); connection.settimeout(6.0)\n"
        "while True:\n    connection.recv(1)\n",
    )  # fmt: skip
    process = person.start("train.py", "-H", "h1,h2,h3")
    seen = [process.stdout.readline() for _ in range(3)]
    assert all(line.endswith(" up\n") for line in seen)
    began = time.monotonic()
    person.cluster.crash("h2")
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        person.cluster.restart("h2")
    assert process.returncode == 1, errors
    assert time.monotonic() - began < 30
    assert "first failure  worker 1 of 3 on h2, pid" in errors
    assert "lost with its host" in errors
    assert "error: the host `h2` of worker 1 was lost" in errors
    assert json.loads((person.run_dir() / "summary.json").read_text())["failure"]["kind"] == "host-lost"


def test_interruption_ends_workers_on_all_hosts(person):
    person.write("train.py", HEAD + "print('up', flush=True)\ntime.sleep(120)")
    process = person.start("train.py", "-H", "h1,h2")
    assert sorted(process.stdout.readline() for _ in range(2)) == ["[0] up\n", "[1] up\n"]
    [launcher] = [
        pid for pid, line in person.cluster.processes("head").items() if "autodist" in line and "nsenter" not in line
    ]
    os.kill(launcher, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "stopping 2 workers: their scripts may save for up to 60 s; press again to kill" in errors


def test_interruption_while_a_host_does_not_answer(person):
    person.write("train.py", HEAD)
    person.cluster.cut("h2")
    try:
        process = person.start("train.py", "-H", "h1,h2", "--connect-timeout", "60")
        while "connecting to 2 hosts" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(1.0)  # so that h1 has its agent
        [launcher] = [pid for pid, line in person.cluster.processes("head").items() if "autodist" in line]
        os.kill(launcher, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        person.cluster.heal("h2")
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_the_name_that_debian_gives_a_machine_is_not_its_address(person):
    ask = "import sys; from autodist.agent.machine._site import place; print(place(sys.argv[1], sys.argv[2:]))"
    there = {"address": "10.77.0.1", "interface": "eth0"}
    for address, others in (("10.77.0.1", []), ("trap", ["h2"]), ("alias of ssh", ["nowhere.invalid", "h2"])):
        person.cluster.run("h1", ["sh", "-c", "grep -q trap /etc/hosts || echo 127.0.1.1 trap >> /etc/hosts"])
        asked = person.cluster.run("h1", [sys.executable, "-c", ask, address, *others])
        assert ast.literal_eval(asked.stdout) == there, asked.stderr
    asked = person.cluster.run("h1", [sys.executable, "-c", ask, "trap"])
    assert ast.literal_eval(asked.stdout) == {"address": "", "interface": ""}


# --- training


TRAIN = """
import keras, numpy as np, tensorflow as tf, autodist
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
with autodist.scope() as ad:
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4)])
    before = model.get_weights()[0].copy()
    model.compile("sgd", "mse")
    model.fit(x, x[:, :4], batch_size=16, epochs=2, shuffle=False, verbose=0)
after = model.get_weights()[0]
assert not np.array_equal(before, after)
print("weights", float(after.sum()).hex())
"""


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("PSLoadBalancing", ()),
        pytest.param("AllReduce(communicator='collective')", ("--allow-open-ports",), marks=pytest.mark.slow),
        pytest.param(
            "AllReduce(communicator='horovod')",
            ("--allow-open-ports",),
            marks=[pytest.mark.slow, pytest.mark.horovod],
        ),
    ],
)
def test_training_over_ssh(person, strategy, options):
    person.write("train.py", TRAIN)
    command = ["train.py", "-H", "h1,h2", "--strategy", strategy, "--host-timeout", "20", *options]
    result = person.run(*command, timeout_s=280)
    assert result.returncode == 0, result.stderr
    [first], [second] = lines_of(result.stdout, 0), lines_of(result.stdout, 1)
    assert first == second
    assert {"graph.zip", "strategy.json"} <= {path.name for path in person.run_dir().iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ONE_PER_CARRIER)
def test_training_over_ipv6(person, strategy):
    for number, host in ((1, "h1"), (2, "h2"), (254, "head")):
        address = ["ip", "-6", "addr", "replace", f"fd77::{number}/64", "dev", "eth0", "nodad"]
        assert person.cluster.run(host, address).returncode == 0
    known = "ssh-keyscan -6 fd77::1 fd77::2 >> ~/.ssh/known_hosts"
    assert person.cluster.run("head", ["sh", "-c", known]).returncode == 0
    person.write("cluster.yml", 'nodes:\n- address: "fd77::1"\n- address: "fd77::2"\n')
    person.write("train.py", TRAIN)
    result = person.run("train.py", "--allow-open-ports", "--strategy", strategy, "--host-timeout", "20", timeout_s=280)
    assert result.returncode == 0, result.stderr
    assert lines_of(result.stdout, 0) == lines_of(result.stdout, 1) != []


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["asyncssh", "ssh"])
def test_dumped_graphs_come_back(person, transport):
    person.write("train.py", TRAIN)
    result = person.run("train.py", "-H", "h1,h2", "--dump-graphs", "graphs", "--transport", transport, timeout_s=280)
    assert result.returncode == 0, result.stderr
    folder = person.cluster.disk("head") / WORK[1:] / "graphs"
    assert {path.name for path in folder.iterdir()} == {"rank_0", "rank_1"}
    assert list(folder.rglob("*.pb"))


@pytest.mark.slow
def test_certificate_of_a_cluster(person):
    person.write("train.py", TRAIN.partition("after = ")[0])
    person.write(
        "certify.py",
        "import os\nfrom autodist.resource_spec import ResourceSpec\nfrom autodist.testing import certify\n"
        "spec = ResourceSpec.from_yaml('nodes: [{address: h1}, {address: h2}]')\n"
        "env = {name: os.environ[name] for name in ('PYTHONPATH',) if name in os.environ}\n"
        "print(certify('train.py', strategy='PS', spec=spec, steps=3, env=env).check())\n",
    )
    command = ["sh", "-c", 'cd "$0" && exec "$@"', WORK, sys.executable, "certify.py"]
    done = person.cluster.run("head", command, timeout_s=280)
    assert done.returncode == 0, done.stderr
    assert "num_workers=2" in done.stdout
