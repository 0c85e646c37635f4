"""What each check says of machines that are made up."""

from dataclasses import replace

import pytest

from autodist.coordination import SERVER_PORTS
from autodist.doctor import Status
from autodist.doctor import _checks as checks
from autodist.doctor import _cluster_agents as cluster_agents
from autodist.doctor import _examination as parts
from autodist.doctor._checks._network_check import is_public
from autodist.errors import HostUnreachable, TimedOut
from autodist.resource_spec import Processors
from tests.doctor.machines import GIGABYTE, changed, cluster, revisited


def findings(examination):
    return [finding for check in checks.CHECKS for finding in check(examination)]


def bad(examination):
    return [
        (finding.host, finding.check, finding.status, finding.message)
        for finding in findings(examination)
        if finding.status is not Status.OK
    ]


def packages(**versions):
    own = {"autodist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1", "horovod": "0.28.1", "numpy": "2.4"}
    own |= {"tcp": "0.1.0", "openssl": "3"}
    return {name: version for name, version in (own | versions).items() if version}


def disks(**changes):
    whole = {kind: parts.Disk(f"/{kind}", 50 * GIGABYTE, True) for kind in ("directory", "tmp", "shm")}
    return whole | {kind: replace(whole[kind], **change) for kind, change in changes.items()}


def test_nothing_is_wrong_with_a_healthy_cluster():
    examination = cluster("nodes: [{address: a}, {address: b, workers: 2, cpus: 2, memory_gb: 16}, {address: c}]")
    found = findings(examination)
    assert bad(examination) == []
    assert {finding.host for finding in found} == {"a", "b", "c"}
    assert {finding.check for finding in found} == {
        "reachable", "python", "autodist", "tensorflow", "keras", "horovod", "numpy", "tcp", "openssl", "compiler",
        "cores", "memory", "gpus", "disk", "limits", "clock", "address", "network", "ports", "connections",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "check", "status", "message", "remedy"),
    [
        ({"python": "3.9.2"}, "python", Status.FAIL, "AutoDist runs on 3.10 to 3.13", "name it by `python`"),
        ({"python": "3.12.1"}, "python", Status.FAIL, "Python 3.12.1, other hosts have 3.11", "install Python 3.11"),
        ({"packages": packages(tensorflow="2.20.0")}, "tensorflow", Status.FAIL, "2.20.0, other hosts have 2.21.0",
         "`/usr/bin/python3 -m pip install tensorflow-cpu==2.21.0`"),
        ({"packages": packages(tensorflow="")}, "tensorflow", Status.FAIL, "not installed for /usr/bin/python3",
         "pip install tensorflow-cpu==2.21.0"),
        ({"packages": packages(autodist="")}, "autodist", Status.FAIL, "not installed",
         '`/usr/bin/python3 -m pip install "autodist-tf[cpu]==0.1.0"`'),
        ({"packages": packages(keras="3.9")}, "keras", Status.FAIL, "keras 3.9, other", "keras==3.15.1"),
        ({"packages": packages(horovod="")}, "horovod", Status.WARN, "horovod is not installed", "install-horovod"),
        ({"packages": packages(tcp="")}, "tcp", Status.WARN, "library, `tcp`, is not installed", "install --force"),
        ({"packages": packages(numpy="1.26")}, "numpy", Status.WARN, "numpy 1.26, other", "pip install numpy==2.4"),
        ({"cores": 0.5}, "cores", Status.WARN, "1 CPU devices on 0.5 of 8 cores, by affinity or a quota", "fewer"),
        ({"available_bytes": 10**8}, "memory", Status.WARN, "0.1 of 32.0 GB free", "end what else runs"),
        ({"gpus": (0, 1)}, "gpus", Status.WARN, "GPUs 0, 1 not used by the spec", "write `gpus: 2` for the host"),
        ({"disks": disks(directory={"free_bytes": 10**9})}, "disk", Status.WARN, "/directory has 1 GB free", "room"),
        ({"disks": disks(tmp={"free_bytes": 10**6})}, "disk", Status.FAIL, "/tmp has 1 MB free", "TMPDIR"),
        ({"disks": disks(tmp={"is_writable": False})}, "disk", Status.FAIL, "can't be written to", "TMPDIR"),
        ({"disks": disks(shm={"free_bytes": 0})}, "disk", Status.WARN, "/shm has 0 MB free", "--shm-size=1g"),
        ({"open_files": 256}, "limits", Status.WARN, "256 open files allowed, 560 may be needed", "4096"),
        ({"names": {"a": ["10.0.0.1"], "b": ["10.0.0.2"], "c": ["127.0.1.1"]}}, "address", Status.WARN,
         "its own name means 127.0.1.1 there", "write `10.0.0.3 c` into its /etc/hosts instead of `127.0.1.1 c`"),
        ({"names": {"a": ["10.0.0.1"], "b": ["10.0.0.2"], "c": ["10.0.0.3"], "box": ["127.0.1.1"]}, "host_name": "box"},
         "address", Status.WARN, "all but Horovod uses 10.0.0.3", "`10.0.0.3 box` into its /etc/hosts instead of"),
        ({"names": {"a": ["10.0.0.99"], "b": ["10.0.0.2"], "c": ["10.0.0.3"]}}, "names", Status.WARN,
         "`a` means 10.0.0.99 there", "10.0.0.1"),
        ({"address": "34.1.2.3"}, "network", Status.WARN, "34.1.2.3 is a public address", "of a private network"),
        ({"address": "2a00:1450::1"}, "network", Status.WARN, "2a00:1450::1 is a public address", "--encrypt"),
        ({"address": ""}, "address", Status.FAIL, "no address that others could reach", "network of the others"),
        ({"free_ports": 0.2}, "ports", Status.WARN, "20% of the ports 20000 to 31999 are free", "ss -tanp"),
        ({"free_ports": 0.0}, "ports", Status.FAIL, "0% of the ports", "ss -tanp"),
    ],
)  # fmt: skip
def test_one_thing_is_wrong_with_one_host(facts, check, status, message, remedy):
    examination = changed(cluster("nodes: [{address: a}, {address: b}, {address: c}]"), "c", **facts)
    ((host, *found, said),) = bad(examination)
    assert (host, *found) == ("c", check, status)
    assert message in said
    assert remedy in next(f.remedy for f in findings(examination) if f.status is not Status.OK)


def test_names_that_a_machine_does_not_know_do_no_harm():
    assert bad(changed(cluster(), "a", names={"a": [], "b": []})) == []


@pytest.mark.parametrize(
    ("node", "facts", "check", "status", "message"),
    [
        ("gpus: [1, 2]", {"gpus": (0, 1)}, "gpus", Status.FAIL, "the spec has GPU 2, there are GPUs 0, 1"),
        ("gpus: 1", {}, "gpus", Status.FAIL, "the spec has GPU 0, there are no GPU"),
        ("gpus: 1", {"gpus": (0, 1)}, "gpus", Status.WARN, "GPU 1 not used by the spec"),
        ("memory_gb: 64", {}, "memory", Status.WARN, "30.0 of 32.0 GB free, the spec says 64 GB"),
        ("workers: 3, cpus: 3", {}, "cores", Status.WARN, "9 CPU devices on 8 cores"),
    ],
)
def test_what_the_spec_says_is_compared(node, facts, check, status, message):
    examination = changed(cluster(f"nodes: [{{address: a, {node}}}]"), "a", **facts)
    assert bad(examination) == [("a", check, status, message)]


def test_containers_of_one_machine_are_found_unless_the_spec_knows():
    containers = cluster("nodes: [{address: a}, {address: b}, {address: c}]")
    for name in "ab":
        containers = changed(containers, name, processors=Processors("one", range(8), 8.0))
    text = "8 cores, on which 2 workers compute"
    assert bad(containers) == [("a", "cores", Status.WARN, text), ("b", "cores", Status.WARN, text)]
    remedies = {finding.remedy for finding in findings(containers) if finding.remedy}
    assert len(remedies) == 1
    assert "write `cores_shared_by: 2`" in remedies.pop()
    known = cluster("nodes: [{address: a, cores_shared_by: 2}, {address: b, cores_shared_by: 2}]")
    for name in "ab":
        known = changed(known, name, processors=Processors("one", range(8), 8.0))
    assert bad(known) == []


def test_what_is_missing_everywhere_is_told_everywhere():
    examination = cluster()
    for name in ("a", "b"):
        examination = changed(examination, name, packages={"autodist": "0.1.0"})
    assert {(host, check) for host, check, _, _ in bad(examination)} == {
        (host, check) for host in ("a", "b") for check in ("tensorflow", "keras", "tcp")
    }
    assert 'pip install "tensorflow-cpu==2.21.*"`' in next(
        f.remedy for f in findings(examination) if f.check == "tensorflow"
    )


def test_what_builds_our_own_library_is_told_where_it_lacks():
    examination = cluster()
    for name in ("a", "b"):
        examination = changed(examination, name, packages=packages(tcp="", horovod=""), compiler="")
    remedies = {finding.check: finding.remedy for finding in findings(examination) if finding.host == "b"}
    assert {check for _, check, status, _ in bad(examination) if status is Status.WARN} == {"tcp"}
    assert remedies["tcp"].startswith("`apt-get install g++`, then `/usr/bin/python3 -m pip install")
    assert "`apt-get install g++`" in remedies["compiler"]
    assert "cmake" in remedies["horovod"]


def test_one_unsupported_tensorflow_everywhere_is_told():
    examination = cluster()
    for name in ("a", "b"):
        examination = changed(examination, name, packages=packages(tensorflow="2.19.0"))
    assert ("a", "tensorflow", Status.FAIL, "TensorFlow 2.19.0, AutoDist works with 2.21") in bad(examination)
    assert "tensorflow-cpu==2.21.*" in next(f.remedy for f in findings(examination) if f.check == "tensorflow")


@pytest.mark.parametrize(
    ("message", "check"), [("`b` is silent", "reachable"), ("the host key is not known here", "host-key")]
)
def test_unreachable_machines_do_not_stop_the_others(message, check):
    error = HostUnreachable(message, hint="do this", address="b")
    examination = revisited(cluster(), "b", error=error, facts=None)
    assert bad(examination) == [("b", check, Status.FAIL, message)]
    assert next(f.remedy for f in findings(examination) if f.status is Status.FAIL) == "do this"
    assert {f.host for f in findings(examination) if f.check == "tensorflow"} == {"a"}


def test_a_machine_that_hangs_is_told_apart():
    error = TimedOut("on `b`: `facts.gather` did not return within 60 s")
    examination = revisited(cluster(), "b", error=error, facts=None)
    assert bad(examination) == [("b", "reachable", Status.FAIL, error.message)]
    assert "`df`" in next(f.remedy for f in findings(examination) if f.status is Status.FAIL)


def test_a_firewall_is_seen():
    examination = revisited(cluster(), "a", unreached={"b": "timed out"})
    ((host, check, status, message),) = bad(examination)
    assert (host, check, status) == ("a", "connections", Status.FAIL)
    assert message == "can't connect to `b` on a port from 20000 to 31999: timed out"


@pytest.mark.parametrize(
    ("ahead_s", "error_s", "text"),
    [
        (0.2, 0.01, ""), (-0.99, 0.0, ""), (1.5, 0.6, ""),
        (1.5, 0.1, "1.5 s ahead of this machine's clock"), (-3600.0, 0.1, "3600.0 s behind this machine's clock"),
    ],
)  # fmt: skip
def test_clocks_that_surely_differ_are_warned_of(ahead_s, error_s, text):
    examination = revisited(cluster(), "b", clock_ahead_s=ahead_s, clock_error_s=error_s)
    assert bad(examination) == ([("b", "clock", Status.WARN, text)] if text else [])


def test_a_clock_that_is_wrong_is_measured_as_such():
    """There is no namespace for the time of day, so no emulated host has a wrong clock: the arithmetic is tested."""
    assert cluster_agents.clock_difference(asked_at=1000.0, trip_s=0.4, told=1000.2) == pytest.approx(0.0)
    assert cluster_agents.clock_difference(asked_at=1000.0, trip_s=0.4, told=990.2) == pytest.approx(-10.0)


def test_the_ports_are_those_of_the_servers():
    assert SERVER_PORTS == parts.PORTS


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True), ("172.32.0.1", True), ("100.128.0.1", True), ("2a00:1450::1", True),
        ("::ffff:8.8.8.8", True), ("10.1.2.3", False), ("172.31.0.1", False), ("192.168.0.1", False),
        ("100.64.0.1", False),
        ("100.127.255.254", False), ("127.0.0.1", False), ("169.254.1.1", False), ("fe80::1%eth0", False),
        ("fd12::1", False), ("::1", False), ("::ffff:10.0.0.1", False),
    ],
)  # fmt: skip
def test_public_addresses(address, expected):
    assert is_public(address) is expected
