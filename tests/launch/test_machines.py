"""Which workers share a machine, and what they are told of it."""

from autodist.launch import ClusterLauncher, Job
from autodist.launch.machines._machines import is_here, machines_with_ranks, positions
from autodist.resource_spec import ResourceSpec

SPEC = """
nodes:
  - {address: a, workers: 2, python: /opt/python, directory: ~/work, ssh_config: g}
  - {address: b, env: {B: "1"}}
ssh: {g: {username: me, shared_envs: {S: $HOME/x, B: "0"}}}
"""


def test_names_of_this_machine_mean_one():
    spec = ResourceSpec.from_yaml("nodes: [{address: localhost}, {address: 127.0.0.2}, {address: localhost}]")
    [(machine, ranks)] = machines_with_ranks(spec).items()
    assert is_here(machine)
    assert ranks == (0, 1, 2)


def test_positions_on_machines_of_different_size():
    spec = ResourceSpec.from_yaml("nodes: [{address: a, workers: 2}, {address: b}, {address: c, workers: 2}]")
    found = positions(machines_with_ranks(spec))
    assert [place.node_rank for place in found] == [0, 0, 1, 2, 2]
    assert [place.local_rank for place in found] == [0, 1, 0, 0, 1]
    assert [place.local_world_size for place in found] == [2, 2, 1, 2, 2]
    assert [place.cross_rank for place in found] == [0, 0, 1, 2, 1]
    assert [place.cross_size for place in found] == [3, 2, 3, 3, 2]


def test_plan_for_other_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH_TO_SECRETS", "here")
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    (tmp_path / "train.py").touch()
    (tmp_path / "model.py").touch()
    job = Job(tmp_path / "train.py", ResourceSpec.from_yaml(SPEC), ("--x",), env={"J": "job"}, strategy="PS")
    first, second, third = (command for command in ClusterLauncher().plan(job))
    assert first.argv == ("/opt/python", "-m", "autodist.worker", "<run>/code/train.py", "--x")
    assert first.directory == "~/work"
    assert third.directory == str(tmp_path)
    assert first.brought == ("train.py", "model.py")
    assert second.env["LOCAL_RANK"] == "1"
    assert third.env["NODE_RANK"] == "1"
    assert third.env["AUTODIST_ADDRESS"] == "b"
    assert {"J": "job", "TF_NUM_INTEROP_THREADS": "3"}.items() <= first.env.items()
    assert "PATH_TO_SECRETS" not in first.env
    assert "PATH" not in first.env
    assert (first.env["B"], third.env["B"]) == ("0", "1")
    assert first.env["AUTODIST_RUN_DIR"] == "<run>/output"
    assert first.describe().env["AUTODIST_TOKEN"] == "***"
