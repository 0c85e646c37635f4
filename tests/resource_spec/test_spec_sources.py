"""Clusters as other launchers write them: lists, hostfiles, Slurm's variables, SSH configurations."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import (
    Host,
    ResourceSpec,
    SshHost,
    is_in_slurm,
    parse_hostfile,
    parse_hosts,
    read_hostfile,
    read_slurm,
    read_ssh_config,
)
from autodist.resource_spec import _entries as entries


def devices(spec: ResourceSpec) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(host.name, host.cpus, host.gpus) for host in spec.hosts]


# --- lists


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", [("a", 1, ())]),
        ("a:2,b:3", [("a", 2, ()), ("b", 3, ())]),
        (" a:2 , b ", [("a", 2, ()), ("b", 1, ())]),
        ("w[1,3-4]:2,b", [("w1", 2, ()), ("w3", 2, ()), ("w4", 2, ()), ("b", 1, ())]),
        ("a:gpus=2,b:cpus=3", [("a", 1, (0, 1)), ("b", 3, ())]),
        ("[fe80::1]:2,10.0.0.2:4", [("fe80::1", 2, ()), ("10.0.0.2", 4, ())]),
        ("[::1]", [("::1", 1, ())]),
        ("localhost:2", [("localhost", 2, ())]),
    ],
)
def test_lists_of_hosts_are_read(text, hosts):
    spec = parse_hosts(text, kind="CPU")
    assert devices(spec) == hosts
    assert spec.chief.name == hosts[0][0]


def test_bare_numbers_count_what_this_machine_has(monkeypatch):
    assert devices(parse_hosts("a:2", kind="GPU")) == [("a", 1, (0, 1))]
    for visible, hosts in (([], [("a", 2, ())]), ([0], [("a", 1, (0, 1))])):
        monkeypatch.setattr("autodist.resource_spec._detect.detect_gpus", lambda visible=visible: tuple(visible))
        assert devices(parse_hosts("a:2")) == hosts
        assert devices(parse_hostfile("a slots=2")) == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no host name"),
        ("a,,b", "has no host name"),
        ("a:", "has ``, expected a number of devices from 1 to 1024"),
        ("a:0", "has `0`, expected a number"),
        ("a:1025", "has `1025`, expected a number"),
        ("a:²", "has `²`, expected a number"),
        ("a:tpus=2", "`a:tpus=2` has `tpus`, expected `gpus` or `cpus`"),
        ("me@a:2", "`me@a:2` has a user name"),
        ("fe80::1", "an IPv6 address is written in brackets"),
        ("[fe80::1]2", "an IPv6 address is written in brackets"),
        ("a:22:2", "can't be read"),
        ("10.0.0.256", "has no host name"),
        ("-oProxyCommand=x", "has no host name"),
        ("a b", "has no host name"),
        ("w[4-1]", "runs backwards"),
        ("w[1-2", "unbalanced brackets"),
        ("a:1,A:2", "`A` appears twice"),
        ("w[1-2],w2", "`w2` appears twice"),
        ("localhost:2,b:2", "`localhost` is a loopback address: `b` can't reach it"),
        ("a[1-9999],b[1-9999]", "there are 19,998 hosts, at most 10,000 are allowed"),
    ],
)
def test_mistakes_of_a_list(text, message):
    with pytest.raises(SpecError) as caught:
        parse_hosts(text, kind="CPU")
    assert caught.value.message.startswith(f"`--hosts {text}`: ")
    assert message in caught.value.message


def test_all_mistakes_of_a_list_come_at_once():
    with pytest.raises(SpecError) as caught:
        parse_hosts("a:x,me@b,c:0", kind="CPU")
    assert caught.value.message.splitlines() == [
        "`--hosts a:x,me@b,c:0` has 3 mistakes:",
        "  `a:x` has `x`, expected a number of devices from 1 to 1024",
        "  `me@b` has a user name, which belongs into `~/.ssh/config`, or into `ssh` of a spec file",
        "  `c:0` has `0`, expected a number of devices from 1 to 1024",
    ]
    assert "a:2,b:2" in caught.value.hint


@given(st.text(alphabet="ab1:[]-,=gpuscpus@. ²\x00", max_size=20))
def test_whatever_the_list_there_is_a_cluster_or_a_spec_error(text):
    with contextlib.suppress(SpecError):
        assert parse_hosts(text, kind="CPU").world_size >= 1


# --- hostfiles

OPEN_MPI = """\
# a comment
aa slots=2 max-slots=4
bb slots = 2   # another
cc
"""


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (OPEN_MPI, [("aa", 2, ()), ("bb", 2, ()), ("cc", 1, ())]),
        ("a:2\nb:1\r\n", [("a", 2, ()), ("b", 1, ())]),
        ("w[1-2] slots=3", [("w1", 3, ()), ("w2", 3, ())]),
        ("a gpus=2\nb cpus=2", [("a", 1, (0, 1)), ("b", 2, ())]),
        ("\ufeffn1\nn1\nn2\nn1\n", [("n1", 3, ()), ("n2", 1, ())]),
        ("a max_slots=4 SLOTS=2", [("a", 2, ())]),
    ],
    ids=["open-mpi", "mpich", "ranges", "kinds", "pbs", "odd"],
)
def test_hostfiles_are_read(text, hosts):
    assert devices(parse_hostfile(text, kind="CPU")) == hosts


def test_all_mistakes_of_a_hostfile_come_at_once(tmp_path: Path):
    path = tmp_path / "hosts.txt"
    path.write_text(
        "a slots=two\n\nb sluts=2\nme@c\nd:2 slots=2\ne gpus=1 cpus=1\nf:1\nlocalhost\ng gpus=1\ng cpus=1\n"
    )
    with pytest.raises(SpecError) as caught:
        read_hostfile(path, kind="CPU")
    first, *rest = caught.value.message.splitlines()
    assert first == f"{path} has 7 mistakes:"
    assert [line.removeprefix(f"  {path}:") for line in rest] == [
        "1: `slots` has `two`, expected a number of devices from 1 to 1024",
        "3: `sluts=2` is unknown, expected `slots=N`, `gpus=N` or `cpus=N`",
        "4: `me@c` has a user name, which belongs into `~/.ssh/config`, or into `ssh` of a spec file",
        "5: `d:2` has several numbers of devices, one is expected",
        "6: `e` has several numbers of devices, one is expected",
        "10: `g` appears again with devices of another kind",
        "8: `localhost` is a loopback address: `f` can't reach it, give this machine's own name or address",
    ]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), (b"\xff\xfe", "not UTF-8"), (b"# nobody\n", "names no host")]
)
def test_a_hostfile_without_hosts_is_refused(tmp_path: Path, content, message):
    path = tmp_path / "hosts"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError, match=message) as caught:
        read_hostfile(path)
    assert str(path) in caught.value.message


@given(st.text(alphabet="ab1:[]-,=slotgpu@.# \n\t²\x00", max_size=40))
def test_whatever_the_hostfile_there_is_a_cluster_or_a_spec_error(text):
    with contextlib.suppress(SpecError):
        assert parse_hostfile(text, kind="CPU").world_size >= 1


# --- Slurm

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[08-10],gpu1"}


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [
        ({}, [("n08", 1, ()), ("n09", 1, ()), ("n10", 1, ()), ("gpu1", 1, ())]),
        ({"SLURM_TASKS_PER_NODE": "2(x3),1"}, [("n08", 2, ()), ("n09", 2, ()), ("n10", 2, ()), ("gpu1", 1, ())]),
        ({"SLURM_TASKS_PER_NODE": "4(x4)", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NODELIST": "a,b,c,d"},
         [(name, 1, (0, 1)) for name in "abcd"]),
        ({"SLURM_JOB_NODELIST": "a", "SLURM_GPUS_PER_NODE": "a100:2,v100:1"}, [("a", 1, (0, 1, 2))]),
        ({"SLURM_JOB_NODELIST": "a", "SLURM_JOB_GPUS": "2-3,5"}, [("a", 1, (0, 1, 2))]),
        ({"SLURM_JOB_NODELIST": "", "SLURM_NODELIST": "a"}, [("a", 1, ())]),
        ({"SLURM_JOB_NODELIST": "r[1-2]-n[1-2]"}, [(name, 1, ()) for name in ("r1-n1", "r1-n2", "r2-n1", "r2-n2")]),
        ({"SLURM_JOB_NODELIST": "a", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, [("a", 1, ())]),
    ],
)  # fmt: skip
def test_allocations_of_slurm_are_read(variables, hosts):
    assert devices(read_slurm(JOB | variables)) == hosts


def test_memory_of_an_allocation():
    def memory(**variables):
        return [host.memory_gb for host in read_slurm({**JOB, "SLURM_JOB_NODELIST": "a,b", **variables}).hosts]

    assert memory(SLURM_MEM_PER_NODE="64000") == [67.1, 67.1]
    assert memory(SLURM_MEM_PER_CPU="1000", SLURM_JOB_CPUS_PER_NODE="4,8") == [4.2, 8.4]
    assert memory(SLURM_MEM_PER_CPU="1000") == [None, None]
    assert memory(SLURM_MEM_PER_NODE="0") == [None, None]


def test_all_mistakes_of_an_allocation_come_at_once():
    with pytest.raises(SpecError) as caught:
        read_slurm({
            "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a,b[2-1]", "SLURM_TASKS_PER_NODE": "2(y3)",
            "SLURM_GPUS_ON_NODE": "two", "SLURM_JOB_GPUS": "x", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8",
        })  # fmt: skip
    assert caught.value.message.splitlines() == [
        "Slurm job 7 has 5 mistakes:",
        "  `srun` started 8 of this command, each would start all workers; start it once, in the script of `sbatch` or "
        "the shell of `salloc`, without `srun`",
        "  `SLURM_JOB_NODELIST`: host range `b[2-1]` runs backwards in `2-1`, expected `1-2`",
        "  `SLURM_GPUS_ON_NODE` is `two`, expected a number of GPUs",
        "  `SLURM_JOB_GPUS` is `x`, expected ids of GPUs such as `0,1` or `0-3`",
        "  `SLURM_TASKS_PER_NODE` is `2(y3)`, expected numbers such as `2(x3),1`",
    ]


@pytest.mark.parametrize("tasks", ["1(x3)", "1(x5)", "1(x999999999)"])
def test_numbers_of_other_nodes_are_a_mistake(tasks):
    with pytest.raises(SpecError, match="but the job has 4"):
        read_slurm(JOB | {"SLURM_TASKS_PER_NODE": tasks})


def test_no_allocation_is_told():
    assert is_in_slurm(JOB)
    for environ in ({}, {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_NODELIST": "a"}):
        assert not is_in_slurm(environ)
        with pytest.raises(SpecError, match="not a Slurm allocation"):
            read_slurm(environ)


# --- SSH configurations


def test_ssh_configurations(tmp_path: Path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "more").write_text("Host c\n  HostName=%h.lab\n  Port = 2222\n")
    (tmp_path / "config").write_text("""\
# what ssh reads
Include conf.d/*
Host a "b"   # two names
    hostname 10.0.0.5
    IdentityFile "~/.ssh/a key"
    IdentityFile ~/.ssh/other
host *.wild !no ??
    Port 99
Host github.com
    User git
Match host hidden
    User nobody
Host far
    ProxyJump gate
Match all
    User late
Host * !a
    User me
Host a
    User never
""")
    assert read_ssh_config(tmp_path / "config") == (
        SshHost("c", "c.lab", "late", 2222),
        SshHost("a", "10.0.0.5", "late", 22, "~/.ssh/a key"),
        SshHost("b", "10.0.0.5", "late", 22, "~/.ssh/a key"),
        SshHost("far", "far", "late", is_behind_jump=True),
    )


def test_the_first_value_counts_and_patterns_can_exclude(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text("Host a b\n  Port 1\nHost a*\n  Port 2\nHost * !b\n  User x\nHost *\n  User y\n  ProxyJump none\n")
    assert read_ssh_config(path) == (SshHost("a", "a", "x", 1), SshHost("b", "b", "y", 1))


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client to compare with")
def test_openssh_reads_the_same(tmp_path: Path):
    (tmp_path / "more").write_text("Host c\n  HostName %h.lab\nHost *\n  Port 2022\n")
    path = tmp_path / "config"
    path.write_text(f"""\
Host a b
  Hostname=10.0.0.5
  User "me"
Host * !a
  User you
  IdentityFile "/keys/a key"
Include {tmp_path}/mo*
Host a c
  Port 99
""")
    hosts = read_ssh_config(path)
    assert [host.alias for host in hosts] == ["a", "b", "c"]
    for host in hosts:
        command = ["ssh", "-G", "-F", str(path), host.alias]
        lines = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
        for key, value in (("hostname", host.address), ("user", host.username), ("port", host.port)):
            assert f"{key} {value}" in lines
        assert host.key_file is None or f"identityfile {host.key_file}" in lines


def test_included_settings_hold_for_the_block_that_includes_them(tmp_path: Path):
    (tmp_path / "lab").write_text("User lab\n")
    (tmp_path / "config").write_text("Host a\n  Include lab\nHost b\n")
    assert [host.username for host in read_ssh_config(tmp_path / "config")] == ["lab", None]


def test_all_mistakes_of_an_ssh_configuration_come_at_once(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text("Include config\nHost a\n  Port 0\nHost b\n  HostName 10.0.0.999\n")
    with pytest.raises(SpecError) as caught:
        read_ssh_config(path)
    first, *rest = caught.value.message.splitlines()
    assert first == f"{path} has 3 mistakes:"
    assert rest[0] == f"  {path}:1: files include each other more than 16 deep"
    assert rest[1:] == [
        "  host `a` has the port `0`, expected a number from 1 to 65535",
        "  host `b` has the address `10.0.0.999`, expected a host name or an IP address",
    ]
    with pytest.raises(SpecError, match="can't be read"):
        read_ssh_config(tmp_path / "nowhere")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(1, 4))
def test_a_pbs_file_and_its_sum_are_the_same_cluster(lines, count):
    spec = parse_hostfile("\n".join(line for line in lines for _ in range(count)), kind="CPU")
    assert {host.name: host.cpus for host in spec.hosts} == {name: lines.count(name) * count for name in lines}


def test_a_host_has_one_worker_with_all_its_devices():
    spec = parse_hosts("a:2,b:2", kind="GPU")
    assert spec == ResourceSpec((Host("a", "a", chief=True, gpus=(0, 1)), Host("b", "b", gpus=(0, 1))))
    assert ResourceSpec.from_json(spec.to_json()) == spec
    assert entries.parse_entry("a").count is None
