"""A first spec file."""

from pathlib import Path

import pytest

from autodist.agent import hardware
from autodist.cli import main
from autodist.resource_spec import ResourceSpec, parse_hosts, read_slurm

SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def written(capsys, *args: str, name: str = "cluster.yml") -> tuple[ResourceSpec, str, str]:
    assert main(["init", *args]) == 0, capsys.readouterr().err
    return ResourceSpec.from_file(name), Path(name).read_text(), capsys.readouterr().out


def test_a_spec_of_this_machine_has_its_hardware(capsys):
    spec, text, told = written(capsys)
    (host,) = spec.hosts
    assert (host.address, host.gpus) == ("localhost", ResourceSpec.local().hosts[0].gpus)
    assert host.memory_gb == round(hardware.memory()["total"] / 1e9, 1)
    assert "# From this machine.\n" in text
    assert "  # This machine: " in text
    assert told == "cluster.yml: 1 host, 1 replica\nnext: autodist run train.py\n"


def test_a_spec_of_a_list_of_hosts(capsys):
    spec, text, told = written(capsys, "-H", "a:cpus=2,b:gpus=2", "-o", "my spec.yml", name="my spec.yml")
    assert spec == parse_hosts("a:cpus=2,b:gpus=2")
    assert "# From `-H a:cpus=2,b:gpus=2`.\n" in text
    assert told == "my spec.yml: 2 hosts, 4 replicas\nnext: autodist doctor --spec 'my spec.yml'\n"


def test_a_spec_of_a_hostfile(capsys):
    Path("hosts.txt").write_text("a cpus=2\nb cpus=1\n")
    spec, text, _ = written(capsys, "--hostfile", "hosts.txt")
    assert spec == parse_hosts("a:cpus=2,b:cpus=1")
    assert "# From the hostfile hosts.txt.\n" in text


def test_a_spec_of_a_slurm_job(capsys, monkeypatch):
    assert main(["init", "--slurm"]) == 2
    assert "not a Slurm allocation" in capsys.readouterr().err
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    spec, text, _ = written(capsys, "--slurm")
    assert spec == read_slurm(SLURM)
    assert "# From Slurm job 7: another job has other nodes.\n" in text


def test_an_ssh_configuration(capsys, directory):
    config = directory / "home" / ".ssh" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("Host gpu1\n  HostName 10.0.0.5\n  User me\nHost *\n  Port 2222\n")
    for args in ([], [str(config)]):
        spec, text, _ = written(capsys, "--force", "--from-ssh-config", *args)
        (host,) = spec.hosts
        assert (host.address, host.ssh.username, host.ssh.port) == ("10.0.0.5", "me", 2222)
        assert "  # `gpu1` in the SSH configuration\n" in text


def test_a_file_is_replaced_only_if_that_is_asked_for(capsys):
    Path("cluster.yml").write_text("mine")
    assert main(["init"]) == 2
    assert "`cluster.yml` is there already" in capsys.readouterr().err
    assert Path("cluster.yml").read_text() == "mine"
    assert written(capsys, "--force")[0].world_size == 1


def test_it_can_be_printed(capsys, directory):
    assert main(["init", "-H", "a,b", "-o", "-"]) == 0
    assert ResourceSpec.from_yaml(capsys.readouterr().out) == parse_hosts("a,b")
    assert not list(directory.iterdir())


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["-H", "a", "--slurm"], "`--hosts` and `--slurm` were given, they exclude each other"),
        (["-H", "a:x"], "expected a number of devices"),
        (["-o", "no/such/cluster.yml"], "`no/such/cluster.yml` can't be written: No such file or directory"),
        (["--from-ssh-config"], "can't be read: No such file"),
    ],
)
def test_wrong_usage_writes_nothing(capsys, directory, args, text):
    assert main(["init", *args]) == 2
    assert text in capsys.readouterr().err
    assert not list(directory.iterdir())
