"""What the launcher of this machine's workers refuses before anything starts, and what it can't start."""

from pathlib import Path

import pytest

from autodist.errors import LaunchError, SpecError, StrategyError, UsageError
from autodist.launch import Job, LocalLauncher
from autodist.launch.run_files._run_directory import RunDirectory
from autodist.resource_spec import Host, ResourceSpec

STEP = "w.steps_taken += 1\n"


def test_missing_script_and_directory(bench):
    with pytest.raises(UsageError, match="does not exist"):
        Job(Path("nope.py"), ResourceSpec.local(1, 1))
    with pytest.raises(UsageError, match="is a directory"):
        Job(bench.directory, ResourceSpec.local(1, 1))
    with pytest.raises(SpecError, match="does not exist"):
        ResourceSpec.from_file("nope.yml")


@pytest.mark.parametrize("bad", [{"grace_s": -1.0}, {"stall_timeout_s": float("nan")}, {"seed": -1}, {"seed": 2**32}])
def test_settings_out_of_range(bench, bad):
    with pytest.raises(UsageError):
        Job(bench.script(""), ResourceSpec.local(1, 1), **bad)


def test_remote_hosts_are_refused(bench):
    spec = ResourceSpec((Host("here", "localhost"), Host("there", "192.0.2.1")))
    with pytest.raises(
        LaunchError, match=r"`there` are other machines, this launcher starts workers on this machine only"
    ):
        LocalLauncher().launch(Job(bench.script(STEP), spec))
    assert not (bench.directory / "runs").exists()


def test_unknown_strategy_is_refused(bench):
    with pytest.raises(StrategyError, match="did you mean `AllReduce`"):
        LocalLauncher().launch(Job(bench.script(STEP), ResourceSpec.local(1, 1), strategy="AllReduc"))
    with pytest.raises(StrategyError):
        LocalLauncher().launch(Job(bench.script(STEP), ResourceSpec.local(1, 1), strategy="nope.json"))


def test_a_strategy_that_no_graph_can_have_on_the_cluster_is_refused(bench):
    for groups, spec, said in (
        (3, ResourceSpec.local(4, 1), "`groups` is 3, allowed: a divisor of the 4 replicas"),
        (2, ResourceSpec.local(1, 4), "allowed: groups of whole hosts"),
    ):
        with pytest.raises(StrategyError, match=said):
            LocalLauncher().launch(Job(bench.script(STEP), spec, strategy=f"Tiled(groups={groups})"))
    assert not (bench.directory / "runs").exists()


def test_a_file_of_ones_own_named_latest_stays(bench):
    own = bench.directory / "runs" / "latest"
    own.parent.mkdir()
    own.write_text("mine")
    assert RunDirectory.create(None).path.parent == own.parent
    assert own.read_text() == "mine"


def test_run_directory_in_use_is_refused(bench):
    bench.run(STEP, run_dir=bench.directory / "out")
    with pytest.raises(UsageError, match="is not empty"):
        bench.run(STEP, run_dir=bench.directory / "out")
    (bench.directory / "file").write_text("")
    with pytest.raises(LaunchError, match="can't be made"):
        bench.run(STEP, run_dir=bench.directory / "file")


def test_interpreter_that_is_not_there(bench):
    hosts = (Host("a", "localhost"), Host("b", "localhost", python="/nowhere/python"))
    job = Job(bench.script(STEP + "time.sleep(60)"), ResourceSpec(hosts), env={"AUTODIST_TESTS_MARK": bench.mark})
    with pytest.raises(LaunchError, match=r"worker 1 can't be started on `b`.*nowhere"):
        LocalLauncher().launch(job)
    assert bench.left() == []
