"""Emulated hosts: each is a machine of its own, they reach each other over their links, and nothing of them is left."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from autodist.errors import LaunchError, UsageError
from autodist.testing import EmulatedCluster
from tests.processes import text_of

pytestmark = pytest.mark.emulated

TRAINING = str(Path(__file__).with_name("train_large.py"))
SIZE = 4 * 2**20
STEPS = 5


def namespaces_of(pid):
    return list(Path("/run/netns").glob(f"autodist-hosts-{pid}-*"))


def directories_of(pid):
    return list(Path("/tmp").glob(f"autodist-hosts-{pid}-*"))


def within(timeout_s, condition):
    deadline = time.monotonic() + timeout_s
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- links


@pytest.mark.slow
def test_workers_train_over_their_links(emulate):
    cluster = emulate(2, "1gbit")
    path = ["--env", "PYTHONPATH"] if "PYTHONPATH" in os.environ else []
    command = ["-m", "autodist", "run", TRAINING, "-H", "h1,h2", "--strategy", "PSLoadBalancing", "--run-dir", "run"]
    done = cluster.run("head", [sys.executable, *command, *path], timeout_s=250)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert "trained" in (cluster.disk("head") / f"root/run/logs/{rank}.log").read_text()
    assert max(cluster.sent_bytes()) > STEPS * SIZE


def seconds_to_send(cluster, sender, taker, size):
    take = (
        "import socket; s = socket.create_server(('', 7001)); print('ready', flush=True); c, _ = s.accept(); n = 0\n"
        "while d := c.recv(2**20): n += len(d)\nprint(n)"
    )
    send = (
        f"import socket, time; s = socket.create_connection(('{taker}', 7001)); t = time.monotonic()\n"
        f"s.sendall(bytes({size})); s.shutdown(1); s.recv(1); print(time.monotonic() - t)"
    )
    taking = subprocess.Popen(cluster.command(taker, [sys.executable, "-c", take]), stdout=subprocess.PIPE, text=True)
    assert taking.stdout.readline() == "ready\n"
    sent = cluster.run(sender, [sys.executable, "-c", send])
    assert taking.communicate(timeout=60)[0] == f"{size}\n", sent.stderr
    return float(sent.stdout)


def test_links_have_their_rates(emulate):
    cluster = emulate(3, "1gbit", rates={"h3": "100mbit"})
    before = cluster.sent_bytes()[0]
    assert seconds_to_send(cluster, "h1", "h2", 2**24) > 0.8 * 2**24 * 8 / 1e9  # no faster than the link
    assert 2**24 <= cluster.sent_bytes()[0] - before < 1.1 * 2**24
    assert seconds_to_send(cluster, "h1", "h3", 2**22) > 0.8 * 2**22 * 8 / 1e8
    assert seconds_to_send(cluster, "h3", "h1", 2**22) > 0.8 * 2**22 * 8 / 1e8
    cluster.shape("h2", "100mbit")
    assert seconds_to_send(cluster, "h1", "h2", 2**22) > 0.8 * 2**22 * 8 / 1e8
    cluster.shape("h2", None)
    assert cluster.run("h2", ["tc", "qdisc", "show", "dev", "eth0"]).stdout.count("tbf") == 0


def test_a_cut_host_runs_on_unheard(emulate):
    cluster = emulate(2)
    cluster.cut("h1")
    assert "timed out" in cluster.run("head", ["ssh", "-o", "ConnectTimeout=1", "h1", "hostname"]).stderr
    assert cluster.run("head", ["ssh", "h2", "hostname"]).stdout == "h2\n"
    assert cluster.run("h1", ["hostname"]).stdout == "h1\n"
    cluster.heal("h1")
    assert cluster.run("head", ["ssh", "h1", "hostname"]).stdout == "h1\n"


# --- machines of their own


@pytest.mark.parametrize("user", ["root", "trainer"])
def test_users_log_in_from_each_host_to_each_other(emulate, user):
    cluster = emulate(2)
    for here in ("head", "h1"):
        for there in ("h2", "h1", "head"):
            seen = cluster.run(here, ["ssh", there, "hostname; whoami; pwd"], user=user)
            assert seen.stdout.split() == [there, user, f"/{user}" if user == "root" else f"/home/{user}"], seen.stderr


def test_hosts_have_their_own_files_and_share_what_is_bound(emulate, tmp_path):
    shared = tmp_path / "shared by 'all' $HOME"
    shared.mkdir()
    (tmp_path / "private").write_text("of this machine")
    cluster = emulate(2, binds=[shared])
    mine = f"autodist-{uuid.uuid4().hex}"
    for directory in ("/root", "/tmp", "/home/trainer", "/etc", "/dev/shm", "/run", "/var"):
        path = f"{directory}/{mine}"
        cluster.run("h1", ["sh", "-c", f"echo here > {path}"])
        assert cluster.run("h1", ["cat", path]).stdout == "here\n"
        assert (cluster.disk("h1") / path[1:]).read_text() == "here\n"
        assert cluster.run("h2", ["test", "-e", path]).returncode == 1
        assert not Path(path).exists()
    assert cluster.run("h1", ["test", "-e", str(tmp_path / "private")]).returncode == 1
    cluster.run("h1", ["sh", "-c", f"echo all > {shlex.quote(str(shared))}/y"])
    assert cluster.run("h2", ["cat", f"{shared}/y"]).stdout == "all\n"
    assert (shared / "y").read_text() == "all\n"


def test_both_users_find_this_autodist(emulate):
    cluster = emulate(1)
    code = "import autodist; print(autodist.__file__)"
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout
    for user in ("root", "trainer"):
        assert cluster.run("head", [sys.executable, "-c", code], user=user).stdout == here
        over_ssh = cluster.run("head", ["ssh", "h1", f"{sys.executable} -c '{code}'"], user=user)
        assert over_ssh.stdout == here, over_ssh.stderr


def test_a_host_shows_its_processes_and_ends_with_them(emulate):
    cluster = emulate(2)
    subprocess.run(cluster.command("h1", ["sh", "-c", "setsid sleep 71 & setsid nohup sleep 72 &"]), check=True)
    assert within(10.0, lambda: sorted(cluster.processes("h1").values()) == ["sleep 71", "sleep 72"])
    found = cluster.processes("h1")
    assert cluster.processes("h2") == {}
    cluster.run("h1", ["sh", "-c", "echo x > /root/x"])
    cluster.crash("h1")
    assert cluster.processes("h1") == {}
    assert not any(is_alive(pid) for pid in found)
    with pytest.raises(LaunchError, match="`h1` is down"):
        cluster.run("h1", ["true"])
    cluster.restart("h1")
    assert cluster.run("head", ["ssh", "h1", "ls /root"]).stdout == ""


def test_what_does_not_exist_is_told(emulate, tmp_path):
    with pytest.raises(UsageError, match=r"h7.* h1 to h2"):
        EmulatedCluster(2, rates={"h7": "1gbit"})
    with pytest.raises(UsageError, match="nowhere"):
        EmulatedCluster(2, binds=[tmp_path / "nowhere"])
    with pytest.raises(UsageError, match=r"`h2`.* h1, head"):
        emulate(1).cut("h2")
    with pytest.raises(UsageError, match="not open"):
        EmulatedCluster(1).cut("h1")
    spec = EmulatedCluster(3, "1gbit", rates={"h2": "100mbit"}).spec
    assert [(host.bandwidth_gbps, host.cores_shared_by) for host in spec.hosts] == [(1.0, 3), (0.1, 3), (1.0, 3)]
    assert {host.burst_kb for host in spec.hosts} == {262.144}
    assert {host.burst_kb for host in EmulatedCluster(2).spec.hosts} == {0}, "nothing bounds their links"


def test_a_program_that_takes_too_long(emulate):
    with pytest.raises(LaunchError, match="longer than"):
        emulate(1).run("h1", ["sleep", "30"], timeout_s=0.5)


@pytest.mark.parametrize("right", ["sys_admin", "net_admin"])
def test_where_root_lacks_a_right_the_reason_is_told(right):
    lacking = ["setpriv", f"--bounding-set=-{right}", f"--inh-caps=-{right}", sys.executable, "-c"]
    code = "from autodist.testing import EmulatedCluster; print(EmulatedCluster.why_not_here())"
    told = subprocess.run([*lacking, code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert re.fullmatch("the kernel refuses it: .*Operation not permitted\n", told)


# --- nothing is left


def fail_on(cluster):
    with cluster:
        subprocess.run(cluster.command("h1", ["sh", "-c", "setsid nohup sleep 74 &"]), check=True)
        command = subprocess.Popen(cluster.command("h2", ["setsid", "sleep", "60"]))
        assert within(20.0, lambda: "sleep 60" in cluster.processes("h2").values())
        raise LaunchError("on purpose", hint=[*cluster.processes("h1"), command])


def test_nothing_is_left_after_an_exception():
    with pytest.raises(LaunchError, match="on purpose") as raised:
        fail_on(EmulatedCluster(2))
    *pids, command = raised.value.hint
    assert command.wait(30) == -signal.SIGKILL
    assert len(pids) == 1
    assert not any(is_alive(pid) for pid in pids)
    assert namespaces_of(os.getpid()) == directories_of(os.getpid()) == []


OWNER = """
import subprocess, time
from autodist.testing import EmulatedCluster
with EmulatedCluster(2) as cluster:
    subprocess.run(cluster.command("h1", ["sh", "-c", "setsid sleep 73 &"]))
    print(*cluster.processes("h1"), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    process.sleeper = int(process.stdout.readline())
    yield process
    process.kill()
    process.communicate()


def test_nothing_outlives_its_owner(owner):
    assert len(namespaces_of(owner.pid)) == 4
    owner.kill()
    owner.wait()
    assert within(10.0, lambda: not (namespaces_of(owner.pid) or directories_of(owner.pid) or is_alive(owner.sleeper)))


def test_the_next_cluster_removes_what_even_the_keeper_could_not(owner):
    keeper = next(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (text := text_of(path)).startswith("/bin/sh\0-c\0cat") and f"-hosts-{owner.pid}-" in text
    )
    os.kill(keeper, signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert len(namespaces_of(owner.pid)) == 4
    assert is_alive(owner.sleeper)
    with EmulatedCluster(1):
        assert namespaces_of(owner.pid) == directories_of(owner.pid) == []
        assert not is_alive(owner.sleeper)
