"""The command: on this machine, and on emulated hosts where many things are wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autodist.cli import main
from autodist.resource_spec import ResourceSpec

PYTHON = sys.executable


def doctor(*args, cwd, **more):
    command = [PYTHON, "-m", "autodist", "doctor", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, **more)


def test_this_machine_is_examined(tmp_path: Path):
    result = doctor("--json", "-n", "2", cwd=tmp_path)
    told = json.loads(result.stdout)
    assert result.returncode == (3 if told["status"] == "FAIL" else 0)
    assert [host["workers"] for host in told["hosts"]] == [["localhost", "localhost#1"]]
    assert told["hosts"][0]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {f["status"] for f in told["findings"] if f["check"] in ("reachable", "python", "keras", "clock")} == {"OK"}
    assert "reaching 1 machine" in result.stderr


def test_tensorflow_need_not_be_there(tmp_path: Path):
    """What asks has no TensorFlow, nor has the machine that is asked: it says so, and what to type."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name.startswith('tensorflow'): raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "import sys; sys.modules['tensorflow'] = None\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "150"}
    result = doctor("--workers", "1", cwd=tmp_path, env=env)
    assert result.returncode == 3, result.stderr
    assert "FAIL  tensorflow on localhost: tensorflow is not installed" in result.stdout
    assert '-m pip install "tensorflow-cpu==2.21.*"`' in result.stdout


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--write-links"], "`--write-links` needs a file to write to"),
        (["--write-links", "-H", "a"], "`--write-links` needs a file to write to"),
        (["--timeout", "0"], "`--timeout` is 0, it must be above 0"),
        (["--spec", "nope.yml"], "`nope.yml` does not exist"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, monkeypatch, capsys, args, text):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *args]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


SPEC = """\
# six machines
nodes:
  - address: h1
    directory: /mnt/tiny/work
  - address: h2
    python: /root/other-python
  - address: h3
    python: /no/such/python
  - address: h4
  - address: h5
  - address: nohost
"""
OTHER_PYTHON = f"""#!/bin/sh
PYTHONPATH=/root/site exec {PYTHON} "$@"
"""


def prepare(cluster) -> None:
    """Make something wrong with every host."""

    def on(host: str, command: str) -> None:
        done = cluster.run(host, ["bash", "-euc", command])
        assert done.returncode == 0, done.stderr

    on(
        "h1",
        "mkdir -p /mnt/tiny; mount -t tmpfs -o size=1m tmpfs /mnt/tiny; head -c 1040000 /dev/zero > /mnt/tiny/full",
    )
    on("h2", "mkdir -p /root/site/keras-2.0.dist-info; echo 'Version: 2.0' > /root/site/keras-2.0.dist-info/METADATA")
    on("h2", f"printf '%s' '{OTHER_PYTHON}' > /root/other-python; chmod +x /root/other-python")
    on("h4", "sed 's/^10.77.0.4 .*/127.0.1.1 h4/' /etc/hosts > /tmp/hosts; cat /tmp/hosts > /etc/hosts")
    on("h4", "ip route add blackhole 10.77.0.1/32")
    on("head", "ssh-keygen -q -f ~/.ssh/known_hosts -R h5 2> /dev/null")
    on("head", "ssh-keygen -q -f ~/.ssh/known_hosts -R 10.77.0.5 2> /dev/null; ssh-keygen -F h5 && exit 1 || exit 0")


@pytest.mark.emulated
def test_everything_that_is_wrong_is_found_at_once(emulate):
    cluster = emulate(5)
    prepare(cluster)
    (cluster.disk("head") / "root" / "cluster.yml").write_text(SPEC)
    result = cluster.run("head", [PYTHON, "-m", "autodist", "doctor", "--json", "--spec", "cluster.yml"], timeout_s=150)
    assert result.returncode == 3, result.stderr
    told = json.loads(result.stdout)
    wrong = {(f["host"], f["check"]): f for f in told["findings"] if f["status"] != "OK"}
    expected = {
        ("h1", "disk"): ("FAIL", "the working directory /mnt/tiny/work has", "make room"),
        ("h2", "keras"): ("FAIL", "keras 2.0, other hosts have 3", "pip install keras"),
        ("h3", "reachable"): ("FAIL", "/no/such/python", "python"),
        ("h4", "address"): ("WARN", "its own name means 127.0.1.1 there", "write `10.77.0.4 h4` into its /etc/hosts"),
        ("h4", "connections"): ("FAIL", "can't connect to `h1` on a port from 20000 to 31999", "firewall of `h1`"),
        ("h1", "connections"): ("FAIL", "can't connect to `h4`", "firewall of `h4`"),
        ("h5", "host-key"): ("FAIL", "the host key", "ssh-keyscan"),
        ("nohost", "reachable"): ("FAIL", "the name is not known", "spelling"),
    }
    for place, (status, message, remedy) in expected.items():
        assert place in wrong, f"{place} is not among {sorted(wrong)}"
        assert (wrong[place]["status"], message in wrong[place]["message"]) == (status, True), wrong[place]
        assert remedy in wrong[place]["remedy"]
    assert set(wrong) - set(expected) <= {(h, "cores") for h in ("h1", "h2", "h4")}
    for host in ("h1", "h2", "h3", "h4", "h5"):
        assert cluster.processes(host) == {}


@pytest.mark.emulated
def test_links_are_measured_and_written(emulate):
    cluster = emulate(3, "1gbit", rates={"h3": "250mbit"})
    file = cluster.disk("head") / "root" / "cluster.yml"
    file.write_text(
        "# mine\nnodes:\n  - address: h1  # first\n  - address: h2\n  - address: h3\nlinks: []  # none yet\n"
    )
    result = cluster.run("head", [PYTHON, "-m", "autodist", "doctor", "--write-links"], timeout_s=150)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "measuring 3 links" in result.stderr
    assert "3 links written into cluster.yml" in result.stderr
    assert file.read_text().startswith(
        "# mine\nnodes:\n  - address: h1  # first\n  - address: h2\n  - address: h3\nlinks:"
    )
    spec = ResourceSpec.from_file(file)
    for (a, b), nominal in {("h1", "h2"): 1.0, ("h1", "h3"): 0.25, ("h2", "h3"): 0.25}.items():
        link = spec.link(a, b)
        assert link in spec.links
        # TCP leaves 0.956 of the rate; on a machine that is busy with other things the fast link may not be filled.
        assert nominal * (0.5 if nominal == 1.0 else 0.7) < link.bandwidth_gbps < nominal * 1.3
        assert 0 < link.latency_ms < 50
    told = re.findall(r"burst on ([h\d, ]+): its link passes ([\d.]+) KB at once after a rest", result.stdout)
    bursts = {host: float(kb) for hosts, kb in told for host in hosts.split(", ")}
    assert sorted(bursts) == ["h1", "h2", "h3"], result.stdout
    for host in cluster.spec.hosts:
        assert 0.3 * host.burst_kb < bursts[host.name] < 1.5 * host.burst_kb
    for host in ("h1", "h2", "h3"):
        assert cluster.processes(host) == {}


@pytest.mark.emulated
def test_interrupted_it_leaves_nothing(emulate):
    """Ctrl-C in the middle of a measurement, beside a machine that does not answer."""
    cluster = emulate(3)
    cluster.cut("h3")
    command = cluster.command(
        "head", [PYTHON, "-m", "autodist", "doctor", "-H", "h1,h2,h3", "--probe", "--timeout", "25"]
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as process:
        while line := process.stderr.readline():
            if "measuring" in line:
                break
        assert line, "it ended before it measured"
        # The first: a child of it that has not become another program yet looks the same.
        pid = min(
            pid
            for pid, text in cluster.processes("head").items()
            if "autodist doctor" in text and "nsenter" not in text
        )
        os.kill(pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    deadline = time.monotonic() + 20
    while (left := [cluster.processes(host) for host in ("h1", "h2")]) != [{}, {}] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [{}, {}]
