"""Which cluster the options mean."""

from pathlib import Path

import pytest

from autodist.cli.options import _cluster_options as options
from autodist.errors import SpecError, UsageError

from .conftest import STEP

SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def names(**given: object) -> list[str]:
    return [host.name for host in options.resolve_spec(options.ClusterOptions(**given)).hosts]


def test_each_source_of_a_cluster_gives_its_hosts(directory: Path, monkeypatch: pytest.MonkeyPatch):
    (directory / "a.yml").write_text("nodes: [{address: a}]")
    (directory / "hosts.txt").write_text("b slots=2\n")
    assert names() == ["localhost"]
    assert names(workers=2, replicas=2) == ["localhost", "localhost#1"]
    assert names(spec="a.yml") == ["a"]
    assert names(hosts="c:2,d") == ["c", "d"]
    assert names(hostfile="hosts.txt") == ["b"]
    (directory / "cluster.yml").write_text("nodes: [{address: e}]")
    assert names() == ["e"]
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    assert names(spec="a.yml") == ["a"]
    assert names(workers=1) == ["localhost"]


def test_an_allocation_is_the_cluster_and_says_so_where_a_file_might_be_meant(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    assert names() == ["n1", "n2"]
    assert capsys.readouterr().err == ""
    (directory / "cluster.yml").write_text("nodes: [{address: e}]")
    assert names() == ["n1", "n2"]
    assert "`--spec cluster.yml` takes the file" in capsys.readouterr().err


def test_hosts_of_a_file_that_is_not_used_are_told(directory: Path, capsys: pytest.CaptureFixture[str]):
    assert names(workers=2) == ["localhost", "localhost#1"]
    assert capsys.readouterr().err == ""
    (directory / "cluster.yml").write_text("nodes: [{address: e}]")
    names(workers=2)
    told = " ".join(capsys.readouterr().err.split())
    assert told == "autodist: `--workers` says what the cluster is; `--spec cluster.yml` takes the file that is here"
    assert names() == ["e"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ({"spec": "a.yml", "hosts": "a"}, "--spec", "--hosts"),
        ({"hosts": "a", "hostfile": "h"}, "--hosts", "--hostfile"),
        ({"hostfile": "h", "workers": 2}, "--hostfile", "--workers"),
        ({"spec": "a.yml", "replicas": 2}, "--spec", "--replicas"),
    ],
)
def test_options_that_exclude_each_other(given, first, second):
    with pytest.raises(UsageError) as caught:
        names(**given)
    assert caught.value.message == f"`{first}` and `{second}` were given, they exclude each other"


@pytest.mark.parametrize("given", [{"hosts": "a:x"}, {"hostfile": "nowhere"}, {"spec": "nowhere.yml"}])
def test_mistakes_are_told(given):
    with pytest.raises(SpecError):
        names(**given)


def test_runs_take_a_list(shell):
    shell.write(STEP + "import json, os; print(json.load(open(os.environ['AUTODIST_SPEC']))['hosts'][0]['cpus'])")
    result = shell("run", "train.py", "-H", "localhost:cpus=3")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[0] 3\n"
