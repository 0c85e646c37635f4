"""Logins to real sshds: what the configuration says is done, and what fails says how to repair it."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import PYTHON, Person

pytestmark = pytest.mark.emulated

HOSTILE = ["a b", "", "it's", '"', "$HOME", "`id`", "a\nb", "\\", "*", "~", "-x", "ä€", "!!", ";true", "\t", "#"]
ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"
REPEAT = """
import sys
while (line := sys.stdin.buffer.read(1)) != b"\\x04":
    sys.stdout.buffer.write(line)
sys.stderr.write("to stderr")
sys.exit(3)
"""


# --- programs


@pytest.mark.parametrize("user", ["root", pytest.param("trainer", marks=pytest.mark.slow)])
def test_programs_get_their_arguments_and_three_streams(person, user):
    person.user = user
    given = "x" * 100_000 + "\nlast"
    echoed, repeated = person.open_all(
        [
            {"address": "h1", "argv": [PYTHON, "-c", ECHO, *HOSTILE]},
            {"address": "h2", "argv": [PYTHON, "-c", REPEAT], "given": given},
        ]
    )
    assert json.loads(echoed["stdout"]) == HOSTILE
    assert (echoed["stderr"], echoed["code"]) == ("", 0)
    assert (repeated["stdout"], repeated["stderr"], repeated["code"]) == (given, "to stderr", 3)


@pytest.mark.slow
def test_a_program_that_does_not_exist_says_so(person):
    found = person.open("h1", "/no/such/program")
    assert "/no/such/program" in found["stderr"]
    assert found["code"] in (126, 127)


def test_a_shell_that_talks_is_no_obstacle(person):
    person.file("h1", "/root/.bashrc", "echo noise; echo more noise >&2; printf 'no newline'\n")
    found = person.open("h1", PYTHON, "-c", REPEAT, given="given")
    assert found["stdout"].endswith("given")
    assert found["stderr"].endswith("to stderr")
    assert found["code"] == 3


@pytest.mark.slow
def test_the_virtual_environment_of_the_spec_is_active(person):
    person.file("h1", "/root/activate", "export MARK='of the venv'\n")
    argv = [PYTHON, "-c", "import os; print(os.environ['MARK'])"]
    found = person.open("h1", *argv, ssh={"python_venv": "source ~/activate"})
    assert found["stdout"] == "of the venv\n"


# --- OpenSSH's configuration


SEEN = ["sh", "-c", "hostname; whoami; echo $SSH_CONNECTION"]


def seen(found):
    """Host, user, who logs in, and to which port."""
    assert found.get("code") == 0, found
    host, user, connection = found["stdout"].splitlines()
    return host, user, connection.split()[0], connection.split()[3]


def listen_on(person, host, port):
    person.shell(host, f"/usr/sbin/sshd -p {port}")
    person.shell("head", f"sed -n 's/^{host},[^ ]*/[{host}]:{port}/p' ~/.ssh/known_hosts >> ~/.ssh/known_hosts")


def test_user_port_and_name_come_from_the_configuration(reader):
    listen_on(reader, "h2", 2222)
    reader.configure("Host gpu*\n  HostName h2\n  User trainer\n  Port 2222\n")
    assert seen(reader.open("gpu7", *SEEN)) == ("h2", "trainer", "10.77.0.254", "2222")


def test_the_spec_comes_before_the_configuration(reader):
    listen_on(reader, "h2", 2222)
    reader.shell("head", "cp ~/.ssh/id_ed25519 ~/other")
    reader.configure("Host h2\n  User nobody\n  Port 7\n  IdentityFile ~/.ssh/no_such_key\n")
    ssh = {"username": "trainer", "port": 2222, "key_file": "~/other"}
    assert seen(reader.open("h2", *SEEN, ssh=ssh)) == ("h2", "trainer", "10.77.0.254", "2222")


def test_included_files_and_match_are_read(reader):
    reader.shell("head", "mkdir -p ~/.ssh/conf.d")
    reader.file("head", "/root/.ssh/conf.d/a.conf", "Host node\n  HostName h1\n")
    reader.configure("Include conf.d/*.conf\nMatch host h1\n  User trainer\n")
    assert seen(reader.open("node", *SEEN))[:2] == ("h1", "trainer")


@pytest.mark.slow
def test_the_systems_configuration_comes_last(reader):
    reader.shell("head", "printf 'Host node\\n  HostName h1\\n  User trainer\\n' >> /etc/ssh/ssh_config")
    reader.configure("Host node\n  User root\n")
    assert seen(reader.open("node", *SEEN))[:2] == ("h1", "root")


@pytest.mark.slow
def test_another_file_can_be_named(reader):
    reader.configure("Host node\n  HostName h1\n")
    reader.file("head", "/root/other config", "Host node\n  HostName h2\n")
    reader.env["AUTODIST_SSH_CONFIG"] = "/root/other config"
    assert seen(reader.open("node", *SEEN))[0] == "h2"


def test_jump_hosts_lead_to_what_is_behind_them(emulate):
    for transport in ("asyncssh", "ssh"):
        person = Person(emulate(3), transport)
        for host in ("h2", "h3"):  # only h1 reaches them
            person.shell(host, "ip route add unreachable 10.77.0.254")
        person.configure(
            "Host h2\n  ProxyJump trainer@h1:22\nHost h3\n  ProxyJump h2\nHost *\n  ServerAliveInterval 30\n"
        )
        found = person.open_all([{"address": f"h{i}", "argv": SEEN} for i in (1, 2, 3)])
        assert [seen(one)[::2] for one in found] == [("h1", "10.77.0.254"), ("h2", "10.77.0.1"), ("h3", "10.77.0.2")]
        person.cluster.close()


@pytest.mark.slow
def test_a_jump_host_that_fails_is_named(reader):
    reader.configure("Host h2\n  ProxyJump nobody@h1\n")
    found = reader.open("h2")
    assert "`h2`" in found["error"]
    if reader.transport == "asyncssh":
        assert re.search(r"through `h1` as `nobody`: the login was refused", found["error"])


def test_jump_hosts_that_need_each_other_are_a_mistake(emulate):
    person = Person(emulate(1), "asyncssh")
    person.configure("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    assert re.search(r"circle: a through b through a", person.open("a")["error"])
    person.configure("Host *\n  ProxyJump h1\n")  # which OpenSSH does not take for a circle
    assert person.open("h1")["stdout"] == "h1\n"


@pytest.mark.slow
def test_a_configuration_that_cannot_be_read_is_named(reader):
    reader.configure("Host h1\n  Port many\n")
    found = reader.open("h1")
    assert "configuration of SSH can't be used" in found["error"]
    assert "config" in found["error"]
    assert "AUTODIST_SSH_CONFIG" in found["hint"]


# --- keys


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_kinds_of_keys_log_in(reader, kind):
    reader.shell("head", f"ssh-keygen -q -t {kind} -N '' -f ~/.ssh/mine; rm ~/.ssh/id_ed25519*")
    public = reader.shell("head", "cat ~/.ssh/mine.pub")
    reader.file("h1", "/root/.ssh/authorized_keys", public, "600")
    assert "the login was refused" in reader.open("h1")["error"]
    reader.configure("Host *\n  IdentityFile ~/.ssh/no_such_key\n  IdentityFile ~/.ssh/mine\n")
    assert reader.open("h1")["stdout"] == "h1\n"


def test_encrypted_keys_log_in_through_an_agent(reader):
    reader.shell("head", "ssh-keygen -q -p -N secret -f ~/.ssh/id_ed25519")
    refused = reader.open("h1")
    assert "the login was refused" in refused["error"]
    if reader.transport == "asyncssh":
        assert "user `root`, `/root/.ssh/id_ed25519` left out: it is encrypted" in refused["error"]
        assert "no SSH agent" in refused["error"]
    reader.file("head", "/root/ask", "#!/bin/sh\necho secret\n", "755")
    add = "ssh-agent -a ~/agent >/dev/null && SSH_ASKPASS_REQUIRE=force SSH_ASKPASS=~/ask ssh-add -q"
    reader.shell("head", f"export SSH_AUTH_SOCK=~/agent; {add}")
    reader.env["SSH_AUTH_SOCK"] = "/root/agent"
    assert reader.open("h1")["stdout"] == "h1\n"


def test_a_refused_login_says_what_was_tried(person):
    person.shell("h1", "/usr/sbin/sshd -p 2200 -o PasswordAuthentication=yes")  # which ssh would ask for
    person.shell("head", "sed -n 's/^h1,[^ ]*/[h1]:2200/p' ~/.ssh/known_hosts >> ~/.ssh/known_hosts")
    person.file("h1", "/home/trainer/.ssh/authorized_keys", "", "600")
    found = person.open("h1", ssh={"username": "trainer", "port": 2200})
    assert re.search("log in to `h1` as `trainer`: the login was refused", found["error"])
    assert "`ssh -p 2200 trainer@h1` has to work without a password" in found["hint"]
    if person.transport == "asyncssh":
        assert "refused, with `/root/.ssh/id_ed25519`, no SSH agent" in found["error"]
    missing = person.open("h1", ssh={"key_file": "~/no key"})
    assert "`/root/no key` does not exist" in missing["error"]


# --- host keys


def test_unknown_host_keys_are_refused_whatever_the_configuration_says(person):
    person.shell("head", "ssh-keygen -q -R h1; ssh-keygen -q -R 10.77.0.1")
    for settings in ("", "StrictHostKeyChecking no\n", "StrictHostKeyChecking no\nUserKnownHostsFile none\n"):
        person.configure(settings)
        found = person.open("h1")
        assert "host key" in found["error"]
        assert "is not known here" in found["error"]
        assert "`ssh h1`" in found["hint"]
        assert "ssh-keyscan -H h1 >> ~/.ssh/known_hosts" in found["hint"]
        named = "cut -d' ' -f1 ~/.ssh/known_hosts | grep -cw h1 || true"  # a key may spell h1, too
        assert person.shell("head", named) == "0\n"


@pytest.mark.slow
def test_the_remedy_for_an_unknown_host_key_works(person):
    person.shell("head", "ssh-keygen -q -R h1; ssh-keygen -q -R 10.77.0.1")
    remedy = re.search(r"`(ssh-keyscan [^`]*)`", person.open("h1")["hint"])[1]
    person.shell("head", remedy)
    assert person.open("h1")["stdout"] == "h1\n"


def test_changed_host_keys_are_refused(person):
    person.shell("head", r"sed -i '/^h1/d; s/^h2,\S*/h1,10.77.0.1/' ~/.ssh/known_hosts")
    person.configure("StrictHostKeyChecking no\n")
    found = person.open("h1")
    assert "is not the one that is known here" in found["error"]
    assert "`ssh-keygen -R h1`" in found["hint"]
    if person.transport == "asyncssh":
        fingerprint = person.shell("h1", "ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        assert fingerprint in found["error"]


# --- who is not there


def test_machines_that_are_not_there_are_told_apart(person):
    person.cluster.cut("h2")
    addresses = ("nowhere.invalid", "10.77.0.99", "h2")
    opens = [{"address": address, "argv": ["true"]} for address in addresses]
    found = person.open_all([*opens, {"address": "h1", "argv": ["true"], "ssh": {"port": 7}}], timeout_s=8)
    unknown, absent, cut, refused = (one["error"] for one in found)
    assert "`nowhere.invalid`: the name is not known" in unknown
    assert re.search(r"`10.77.0.99`: the network does not lead there \(No route to host\)", absent)
    assert re.search(r"`h2`: (no login within 8 s|the network does not lead there)", cut)
    assert re.search("`h1`: the connection was refused.*no sshd listens", refused)
    assert all(one["seconds"] < 30 and one["hint"] for one in found)


PWN = "touch /tmp/pwned"
NAMES = [
    *(f"-oProxyCommand={PWN}", f"$({PWN})", f"`{PWN}`", f"a;{PWN}", "h1 -v", "h1,h2", "%d"),
    *("a b", "", "a\nb", "'", "ä" * 80),
]


def test_names_are_names_and_no_commands(person):
    opens = [{"address": name, "argv": ["hostname"]} for name in NAMES]
    opens += [{"address": "h1", "argv": ["hostname"], "ssh": {"username": name}} for name in NAMES if name]
    for wanted, found in zip(opens, person.open_all(opens), strict=True):
        assert "error" in found, (wanted, found)
        assert found["hint"]
    for host in ("head", "h1"):
        # The hosts share the checkout, which may be below /tmp.
        assert set(person.shell(host, "ls /tmp").split()) <= set(Path(__file__).parts)


@pytest.mark.slow
def test_a_machine_that_accepts_and_says_nothing_is_given_up(person):
    silent = "import socket, time; s = socket.create_server(('', 2200)); c = s.accept(); time.sleep(60)"
    command = person.cluster.command("h1", [PYTHON, "-c", silent])
    with subprocess.Popen(command):
        time.sleep(1)
        found = person.open("h1", ssh={"port": 2200}, timeout_s=2)
        for pid in person.cluster.processes("h1"):
            os.kill(pid, signal.SIGKILL)
    assert "`h1`: no login within 2 s" in found["error"]


@pytest.mark.slow
def test_a_cut_machine_is_seen_to_be(person):
    process = person.start([{"address": "h1", "argv": ["sleep", "200"]}])
    person.cluster.cut("h1")
    began = time.monotonic()
    found = json.loads(process.stdout.readline())
    process.communicate(timeout=30)
    assert 2.0 < time.monotonic() - began < 110.0  # 75 s, on a machine that is not busy
    assert found["code"] is None
    assert found["closing"] < 10.0


# --- connections


def test_a_login_is_shared_by_its_channels(emulate):
    person = Person(emulate(1), "asyncssh")
    found = person.open_all([{"address": "h1", "argv": ["sh", "-c", "echo $SSH_CONNECTION; sleep 1"]}] * 4)
    assert len({one["stdout"] for one in found}) == 1
    assert all(one["code"] == 0 for one in found)


def test_many_machines_are_logged_in_to_at_once(reader):
    person = reader
    person.configure("Host a*\n  HostName h1\nHost b*\n  HostName h2\n")
    names = [f"{letter}{number}" for number in range(16) for letter in "ab"]
    found = person.open_all(
        [{"address": name, "argv": ["sh", "-c", "echo $SSH_CONNECTION"]} for name in names], timeout_s=60
    )
    assert len({one["stdout"] for one in found}) == 32, found


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_nothing_is_left_of_a_killed_launcher(person, number):
    process = person.start([{"address": host, "argv": ["cat"]} for host in ("h1", "h2")])
    deadline = time.monotonic() + 20
    while list(person.cluster.processes("h1").values()) != ["cat"]:  # before it, sshd's child or a shell
        assert time.monotonic() < deadline, person.cluster.processes("h1")
        time.sleep(0.05)
    launcher = next(pid for pid, line in person.cluster.processes("head").items() if "drive.py" in line)
    os.kill(launcher, number)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while any(person.cluster.processes(host) for host in ("h1", "h2", "head")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [person.cluster.processes(host) for host in ("h1", "h2", "head")] == [{}, {}, {}]
