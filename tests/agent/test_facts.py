"""What a machine says of itself: this one, and control groups that are not here."""

import importlib.metadata
import json
import os
import platform
import shutil
import socket
import sys
from pathlib import Path

import pytest

import autodist
from autodist.agent.machine import _addresses, _facts, _hardware


@pytest.fixture(scope="module")
def told():
    facts = _facts.gather("~/not there/yet", "localhost", ["nowhere.invalid", "127.0.0.1"], 20000, 31999)
    return json.loads(json.dumps(facts))


def test_interpreter_and_packages(told):
    assert (told["python"], told["executable"]) == (platform.python_version(), sys.executable)
    assert told["host_name"] == socket.gethostname()
    assert told["packages"]["autodist"] == autodist.__version__
    for name in ("keras", "numpy"):
        assert told["packages"][name] == importlib.metadata.version(name)
    assert told["packages"]["tensorflow"].startswith("2.")
    assert "tensorflow-cpu" not in told["packages"]


def test_room_and_limits(told):
    assert told["cores"]["usable"] <= told["cores"]["installed"] == os.cpu_count()
    assert 1e8 < told["memory"]["available"] < told["memory"]["total"] < 1e14
    there = told["disks"]["directory"]
    assert there["path"] == os.path.expanduser("~/not there/yet")
    assert there["is_writable"]
    assert there["free"] == pytest.approx(shutil.disk_usage(os.path.expanduser("~")).free, rel=0.1)
    assert not os.path.exists(there["path"])
    assert 0.9 < told["free_ports"] <= 1.0
    assert told["open_files"] >= 256 or told["open_files"] == -1


def test_names_and_addresses(told):
    assert told["names"]["localhost"][0] == "127.0.0.1"
    assert told["names"]["nowhere.invalid"] == []
    assert "127.0.0.1" in told["interfaces"]["lo"]
    every = [ip for ips in told["interfaces"].values() for ip in ips]
    for ip in every:
        if not ip.startswith("fe80"):  # these need the interface's name beside them
            with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET) as end:
                end.bind((ip, 0))
    assert told["address"] == ""  # nobody else reaches `localhost`, and none of the others is another machine


def test_an_own_address_is_found_by_name_or_by_the_way_to_the_others(monkeypatch):
    means = {"me": ["127.0.1.1"], "known": ["10.0.0.7"], "other": ["10.0.0.9"]}
    monkeypatch.setattr(_addresses, "interfaces", lambda: {"lo": ["127.0.0.1"], "eth0": ["10.0.0.7", "10.0.1.7"]})
    monkeypatch.setattr(_addresses, "_addresses_of", lambda name: means.get(name, []))
    monkeypatch.setattr(_addresses, "_source", lambda ip: "10.0.1.7" if ip == "10.0.0.9" else "")
    assert _addresses.reached_by("known", ["other"]) == ("10.0.0.7", "eth0")
    assert _addresses.reached_by("me", ["other"]) == ("10.0.1.7", "eth0")
    assert _addresses.reached_by("me", ["stranger"]) == ("", "")


@pytest.mark.parametrize(
    ("groups", "files", "cores", "memory"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5, None),
        ("0::/\n", {"cpu.max": "50000 100000", "memory.max": "1000000", "memory.current": "400000"}, 0.5, 600_000),
        ("0::/a\n", {"a/memory.max": "max"}, None, None),
        (
            "4:cpu,cpuacct:/x\n5:memory:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "25000", "cpu/x/cpu.cfs_period_us": "100000",
             "memory/x/memory.limit_in_bytes": "2000", "memory/memory.limit_in_bytes": "9223372036854771712"},
            0.25, 2000,
        ),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, None, None),
    ],
    ids=["nested", "root", "none", "v1", "v1-none"],
)  # fmt: skip
def test_control_groups(tmp_path: Path, monkeypatch, groups, files, cores, memory):
    for name, content in {"own": groups, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    free = _hardware.memory()["total"]
    monkeypatch.setattr(_hardware, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(_hardware, "_OWN_CGROUPS", str(tmp_path / "own"))
    told = _hardware.cores()
    assert told["usable"] == (len(os.sched_getaffinity(0)) if cores is None else cores)
    if memory is not None:
        assert _hardware.memory()["available"] == memory
    else:
        assert _hardware.memory()["total"] >= free


def test_gpus_are_what_nvidia_smi_says(tmp_path: Path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, Tesla V100, SXM2, 16160, 11'\necho '1, A100, 40960, 0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    assert _hardware.gpus() == [
        {"index": 0, "name": "Tesla V100, SXM2", "memory_mb": 16160.0, "used_mb": 11.0},
        {"index": 1, "name": "A100", "memory_mb": 40960.0, "used_mb": 0.0},
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert len(_hardware.gpus()) == 2
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert _hardware.gpus() == [{"index": 0, "name": "A100", "memory_mb": 40960.0, "used_mb": 0.0}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _hardware.gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for broken in ("exit 9", "echo nonsense"):
        program.write_text(f"#!/bin/sh\n{broken}\n")
        assert _hardware.gpus() == []


def test_full_ports_are_seen():
    with socket.socket() as end:
        end.bind(("", 0))
        port = end.getsockname()[1]
        assert _facts._free_ports(range(port, port + 1)) == 0.0
    assert _facts._free_ports(range(port, port + 1)) == 1.0


def test_gpus_without_nvidia_smi_are_those_of_the_driver(tmp_path: Path, monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_hardware, "_DRIVERS_GPUS", str(tmp_path / "gpus"))
    assert _hardware.gpus() == []
    for name in ("0000:3b:00.0", "0000:5e:00.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    assert [gpu["index"] for gpu in _hardware.gpus()] == [0, 1]
