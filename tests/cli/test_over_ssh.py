"""What other machines are told by `autodist run`, and what they show: hostile names, secrets, ports."""

import ast
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.strategies_by_carrier import ONE_PER_CARRIER

pytestmark = pytest.mark.emulated

HOSTILE = '-it\'s; a "b" $(touch pwned) `touch pwned` $HOME\n&|<>*?[x]{y}\\ #é\u2028漢 [bold]~'
PRINTABLE = HOSTILE.replace("\n", "").replace("\u2028", "")  # what a spec may hold
HOSTS = ("h1", "h2")
HEAD = """
import hashlib, os, sys, time
from autodist.coordination import current_worker
w = current_worker(); w.steps_taken += 1
"""
SCRIPT = (
    HEAD
    + """
from helper import told
print(ascii([sys.argv[1:], os.environ["GIVEN"], os.environ["OF_SPEC"], os.getcwd(), told]))
print("the token is", hashlib.sha256(os.environ["AUTODIST_TOKEN"].encode()).hexdigest())
print("secrets", sorted(os.environ[name].partition("-")[2] for name in ("A_TOKEN", "B_TOKEN", "C_TOKEN")))
open("/root/ready", "w").close()
while not os.path.exists("/root/go"): time.sleep(0.05)
open("written by the script", "w").close()
"""
)
DIRECTORY = "/root/" + HOSTILE


class Site:
    """A directory on `head` from which somebody launches on the hosts."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.path = DIRECTORY
        directory = self.disk("head", DIRECTORY)
        directory.mkdir()
        self.since = directory.stat().st_ctime  # by the clock of files, which is a little behind

    def disk(self, host, path):
        return self.cluster.disk(host) / path.lstrip("/")

    def write(self, name, text) -> None:
        (self.disk("head", self.path) / name).write_text(text)

    def write_spec(self, name, **settings) -> None:
        nodes = [{"address": host, "python": sys.executable, **settings} for host in HOSTS]
        self.write(name, yaml.safe_dump({"nodes": nodes}, allow_unicode=True))

    def command(self, *args, **env):
        arguments = shlex.join([sys.executable, "-m", "autodist", *args])
        return self.cluster.command("head", ["bash", "-c", f"cd {shlex.quote(self.path)} && exec {arguments}"], env=env)

    def start(self, *args, **env):
        return subprocess.Popen(
            self.command(*args, **env), text=True, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def wait_for(self, process, host, path, timeout_s=60.0) -> None:
        """Wait until a worker has made this file."""
        deadline = time.monotonic() + timeout_s
        while not self.disk(host, path).exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"{path} was never made on {host}"
            time.sleep(0.05)

    def texts(self, host, *directories) -> list[str]:
        """All files below the directories of a host that are of this test: others, like clones of it, may be there."""
        found = []
        for directory in directories:
            for path, _, files in os.walk(self.disk(host, directory)):
                found += [Path(path, file) for file in files]
        return [file.read_bytes().decode(errors="replace") for file in found if self.is_of_test(file)]

    def is_of_test(self, file) -> bool:
        """Whether it was written or copied since this test began, by the time that no program can set."""
        return file.is_file() and file.stat().st_ctime >= self.since


@pytest.fixture
def site(emulate):
    return Site(emulate(2))


@pytest.mark.parametrize("transport", ["asyncssh", pytest.param("ssh", marks=pytest.mark.slow)])
def test_hostile_names_and_secrets(site, transport):
    site.write(f"{HOSTILE}.py", SCRIPT)
    site.write("helper.py", f"told = {HOSTILE!r}\n")
    site.write("vars.env", "B_TOKEN=hunter2-b\n")
    site.write_spec(f"{HOSTILE}.yml", env={"OF_SPEC": PRINTABLE, "C_TOKEN": "hunter2-c"})
    arguments = ["-x", "--", HOSTILE, ""]
    options = [
        *("--spec", f"./{HOSTILE}.yml", "--run-dir", f"./{HOSTILE}", "--env", f"GIVEN={HOSTILE}", "--env", "A_TOKEN"),
        *("--env-file", "vars.env", "--transport", transport, "-v", "--debug"),
    ]
    with site.start("run", *options, "--", f"{HOSTILE}.py", *arguments, A_TOKEN="hunter2-a") as process:
        try:
            for host in HOSTS:
                site.wait_for(process, host, "/root/ready")
            shown = [command for host in (*HOSTS, "head") for command in site.cluster.processes(host).values()]
            kept_meanwhile = [text for host in HOSTS for text in site.texts(host, "/tmp", "/root", "/var/tmp")]
        finally:
            for host in HOSTS:
                site.disk(host, "/root/go").touch()
            output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    for rank in (0, 1):
        [told] = [line for line in output.splitlines() if line.startswith(f"[{rank}] [")]
        assert ast.literal_eval(told[4:]) == [arguments, HOSTILE, PRINTABLE, DIRECTORY, HOSTILE]
        assert f"[{rank}] secrets ['a', 'b', 'c']\n" in output
    run_dir = f"{DIRECTORY}/{HOSTILE}"
    kept = site.texts("head", run_dir)
    log = (site.disk("head", run_dir) / "logs" / "1.log").read_text()
    assert "secrets ['a', 'b', 'c']" in log
    for host in HOSTS:
        assert (site.disk(host, DIRECTORY) / "written by the script").is_file()
        assert not any("from helper import told" in text for text in site.texts(host, "/tmp", "/root")), (
            "it is gone again"
        )
    for host in (*HOSTS, "head"):
        find = ["find", "/root", "/tmp", "-name", ".pyenv", "-prune", "-o", "-name", "pwned", "-print"]
        assert site.cluster.run(host, find).stdout == ""
    everything = [output, errors, *shown, *kept, *kept_meanwhile]
    assert len(kept) >= 6
    assert sum("from helper import told" in text for text in kept_meanwhile) == len(HOSTS), "the script was brought"
    assert [text for text in everything if "hunter2" in text] == []
    digests = set(re.findall(r"the token is (\w+)", output))
    words = {word for text in everything for word in re.findall(r"[0-9a-fA-F]{16,}", text)}
    assert len(digests) == 1
    assert digests <= words
    assert digests.isdisjoint(hashlib.sha256(word.encode()).hexdigest() for word in words)


@pytest.mark.slow
def test_stop_and_logs_from_head(site):
    site.write("train.py", HEAD + "print('hello', w.rank, flush=True); time.sleep(600)")
    site.write_spec("cluster.yml")
    with site.start("run", "train.py") as process:
        with site.start("logs", "latest") as reader:
            reader.communicate(timeout=60)
        deadline = time.monotonic() + 60.0
        while "[1] hello 1" not in (seen := run(site, "logs", "latest")).stdout:
            assert time.monotonic() < deadline, seen.stderr
            time.sleep(0.2)
        status = json.loads(run(site, "status", "latest", "--json").stdout)["run"]
        assert [worker["host"] for worker in status["workers"]] == list(HOSTS)
        assert [worker["state"] for worker in status["workers"]] == ["running", "running"]
        elsewhere = site.cluster.run("h1", [sys.executable, "-m", "autodist", "stop", "/root/copy"])
        assert elsewhere.returncode == 2
        stopped = run(site, "stop", "latest")
        assert stopped.returncode == 0, stopped.stderr
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert [site.cluster.processes(host) for host in HOSTS] == [{}, {}]


def run(site, *args):
    return subprocess.run(site.command(*args), capture_output=True, text=True, timeout=60, cwd="/", check=False)


TRAINING = """
import autodist, keras, numpy as np, os, time
with autodist.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer="sgd", loss="mse")
    before = model.get_weights()[0]
    model.fit(np.ones((32, 4)), np.ones((32, 3)), batch_size=8, verbose=0)
    open("/root/ready", "w").close()
    while not os.path.exists("/root/go"): time.sleep(0.05)
    model.fit(np.ones((32, 4)), np.ones((32, 3)), batch_size=8, verbose=0)
    assert (model.get_weights()[0] != before).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ONE_PER_CARRIER)
def test_ports_are_on_the_network_of_the_cluster_only(site, strategy):
    """Hosts and `head` are on a second network as well; nothing of the run can be reached by it."""
    site.write("train.py", TRAINING)
    site.write_spec("cluster.yml")
    second = {host: f"10.99.0.{number}" for number, host in enumerate(("head", *HOSTS), 1)}
    for host, address in second.items():
        site.cluster.run(host, ["ip", "address", "add", f"{address}/24", "dev", "eth0"])
    with site.start("run", "train.py", "--allow-open-ports", "--strategy", strategy) as process:
        try:
            for host in HOSTS:
                site.wait_for(process, host, "/root/ready", 120.0)
            listening = {host: listeners(site.cluster, host) for host in second}
            by_the_cluster = {
                (host, port) for host in HOSTS for _, port in listening[host] if is_open(site.cluster, host, port)
            }
            by_the_other = {
                (host, port)
                for host, address in second.items()
                for _, port in listening[host]
                if is_open(site.cluster, address, port)
            }
        finally:
            for host in HOSTS:
                site.disk(host, "/root/go").touch()
            _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert all(len(places) >= 1 for places in listening.values()), listening
    assert by_the_other == set()
    assert {address for places in listening.values() for address, _ in places}.isdisjoint({"*", "0.0.0.0", "[::]"})
    by_host = {host: sum(one == host for one, _ in by_the_cluster) for host in HOSTS}
    servers = 1 if "collective" in strategy else 0
    assert by_host == dict.fromkeys(HOSTS, 1 + servers), "where hosts look for each other, and TensorFlow's servers"


def listeners(cluster, host) -> set[tuple[str, int]]:
    """Where programs of a host listen, its sshd aside."""
    lines = cluster.run(host, ["ss", "-Htlnp"]).stdout.splitlines()
    places = (line.split()[3].rpartition(":") for line in lines if '"sshd"' not in line)
    return {(address, int(port)) for address, _, port in places}


def is_open(cluster, address, port) -> bool:
    code = f"import socket; socket.create_connection(({address!r}, {port}), 1.0)"
    return cluster.run("head", [sys.executable, "-S", "-c", code]).returncode == 0
