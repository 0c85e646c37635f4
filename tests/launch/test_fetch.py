"""What scripts have written on other machines is copied; here these are directories of this one."""

import os
import time

import pytest

from autodist.cli._fetch_command import _lines
from autodist.errors import LaunchError, UsageError
from autodist.launch import RunDirectory, StatusKeeper, fetch
from autodist.remote import LocalTransport
from autodist.resource_spec import ResourceSpec


def run_on(tmp_path, nodes):
    directory = RunDirectory.create(tmp_path / "run")
    spec = ResourceSpec.from_yaml(f"nodes: [{nodes}]")
    directory.write_spec(spec)
    with StatusKeeper(directory, [host.name for host in spec.hosts]) as status:
        status.end(0)
    return directory.path


def write(path, text="x", age_s=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)


def test_what_is_newer_than_the_run_is_copied(tmp_path):
    there = tmp_path / "my work"
    run = run_on(tmp_path, f"{{address: far, directory: '{there}'}}")
    write(there / "model.keras", "weights")
    write(there / "checkpoints" / "step-1" / "index", "1")
    write(there / "train.py", age_s=3600.0)
    write(there / ".cache" / "secret")
    (there / "link").symlink_to("/etc/hostname")
    [found] = fetch(run, LocalTransport())
    assert (found.address, found.target, found.size_bytes) == ("far", run / "files", 8)
    assert sorted(found.files) == ["checkpoints/step-1/index", "model.keras"]
    assert (run / "files" / "model.keras").read_text() == "weights"
    assert sorted(p.name for p in (run / "files").rglob("*")) == ["checkpoints", "index", "model.keras", "step-1"]
    target = tmp_path / "here"
    assert fetch(run, LocalTransport(), ["*.keras"], target)[0].files == ("model.keras",)
    assert fetch(run, LocalTransport(), ["checkpoints"], target)[0].files == ("checkpoints/step-1/index",)


def test_several_machines_have_a_folder_each(tmp_path):
    run = run_on(tmp_path, ", ".join(f"{{address: h{n}, directory: '{tmp_path}/h{n}'}}" for n in (1, 2)))
    for n in (1, 2):
        write(tmp_path / f"h{n}" / "log.csv", str(n))
    fetch(run, LocalTransport())
    assert [(run / "files" / f"h{n}" / "log.csv").read_text() for n in (1, 2)] == ["1", "2"]


def test_a_directory_that_is_gone_and_a_run_here(tmp_path):
    with pytest.raises(LaunchError, match="files in `/not/there` on `far` can't be read: FileNotFoundError"):
        fetch(run_on(tmp_path, "{address: far, directory: /not/there}"), LocalTransport())
    with pytest.raises(UsageError, match="all workers of `run` were on this machine") as caught:
        fetch(run_on(tmp_path / "2", "{address: localhost}"), LocalTransport())
    assert os.getcwd() in caught.value.hint


def test_machines_without_files_share_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_on(tmp_path, ", ".join(f"{{address: h{n}, directory: '{tmp_path}/h{n}'}}" for n in (1, 2, 3)))
    for n in (1, 2, 3):
        (tmp_path / f"h{n}").mkdir()
    write(tmp_path / "h1" / "model.keras", "weights")
    assert list(_lines(fetch(run, LocalTransport()))) == [
        f"h1: 1 file, 0.0 MB of {tmp_path}/h1 in run/files/h1",
        "nothing to copy on h2, h3",
    ]
