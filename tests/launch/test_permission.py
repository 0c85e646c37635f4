"""What is refused before anything starts: what can't be encrypted, and what opens ports, unless that is allowed."""

import dataclasses

import pytest

from autodist import api
from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import LaunchError, StrategyError, UsageError
from autodist.launch import ClusterLauncher, Job
from autodist.launch.machines._software import Software, check_can_encrypt
from autodist.resource_spec import ResourceSpec
from autodist.search import Auto
from autodist.strategies import PS, AllReduce


@pytest.fixture
def job(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    return Job(script, ResourceSpec.local(workers=2), encrypt=True, run_dir=tmp_path / "run")


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        ("AllReduce(communicator='horovod')", "Horovod"),
        ("AllReduce(communicator='collective')", "TensorFlow's collectives"),
        ("Horovod(communicator='horovod')", "Horovod"),
    ],
)
def test_carriers_that_cannot_encrypt_are_named(job, strategy, named):
    job = dataclasses.replace(job, strategy=strategy)
    with pytest.raises(StrategyError, match=f"goes over {named}, so everything would be sent in the clear") as caught:
        ClusterLauncher().launch(job)
    assert "AllReduce(communicator='tcp')" in caught.value.hint
    assert not job.run_dir.exists()


@pytest.mark.parametrize("strategy", [None, "AllReduce", "PartitionedPS", "SFB", "auto", "auto(online=3)"])
def test_what_goes_over_our_own_connections_is_planned(job, strategy):
    for worker in ClusterLauncher().plan(dataclasses.replace(job, strategy=strategy)):
        assert worker.env["AUTODIST_CERTIFICATE"] == "***"
    for worker in ClusterLauncher().plan(dataclasses.replace(job, strategy=strategy, encrypt=False)):
        assert worker.env["AUTODIST_CERTIFICATE"] == ""


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        ("AllReduce(communicator='collective')", "TensorFlow's collectives"),
    ],
)
def test_what_opens_ports_asks_for_the_option(job, monkeypatch, strategy, named):
    monkeypatch.delenv("AUTODIST_ALLOW_OPEN_PORTS")
    job = dataclasses.replace(job, strategy=strategy, encrypt=False)
    with pytest.raises(StrategyError, match=f"goes over {named}, which open ports that run code") as caught:
        ClusterLauncher().launch(job)
    assert "AllReduce(communicator='tcp')" in caught.value.hint
    assert "`autodist run --allow-open-ports`" in caught.value.hint
    assert not job.run_dir.exists()

    for allowed in (dataclasses.replace(job, allow_open_ports=True), job):
        for worker in ClusterLauncher().plan(allowed):
            assert worker.env["AUTODIST_ALLOW_OPEN_PORTS"] == "1"
        monkeypatch.setenv("AUTODIST_ALLOW_OPEN_PORTS", "1")


@pytest.mark.parametrize("strategy", [None, "AllReduce", "PS", "PartitionedPS", "Horovod", "Parallax", "auto"])
def test_what_opens_none_does_not(job, monkeypatch, strategy):
    monkeypatch.delenv("AUTODIST_ALLOW_OPEN_PORTS")
    for worker in ClusterLauncher().plan(dataclasses.replace(job, strategy=strategy, encrypt=False)):
        assert worker.env["AUTODIST_ALLOW_OPEN_PORTS"] == ""


def test_what_a_script_chooses_itself_is_refused_where_it_does(monkeypatch):
    worker, spec = Worker(WorkerEnvironment(world_size=2)), ResourceSpec.local(workers=2)
    with pytest.raises(StrategyError, match="`--allow-open-ports`"):
        api._permitted("AllReduce(communicator='collective')", worker, spec)
    assert api._permitted(Auto(online=2), worker, spec) == Auto(online=2, over="horovod tcp")
    assert api._permitted("AllReduce", worker, spec) == AllReduce()
    alone = Worker(WorkerEnvironment())
    assert api._permitted(Auto(), alone, ResourceSpec.local()) == Auto()
    assert api._permitted("PS(communicator='tcp')", alone, ResourceSpec.local()) == PS(communicator="tcp")


def test_one_worker_has_nobody_to_speak_to(job):
    alone = dataclasses.replace(job, spec=ResourceSpec.local(workers=1), strategy="PSLoadBalancing")
    assert len(ClusterLauncher().plan(alone)) == 1


def test_slurm_sends_the_secret_in_the_clear(job):
    others = dataclasses.replace(job, spec=ResourceSpec.from_yaml("nodes: [{address: h1}, {address: h2}]"))
    with pytest.raises(UsageError, match="`--encrypt` does not go with the transport `srun`") as caught:
        ClusterLauncher(transport="srun").launch(others)
    assert "--transport ssh" in caught.value.hint
    assert ClusterLauncher(transport="srun").plan(job), "nothing leaves this machine"


def test_hosts_that_lack_something_are_listed():
    def software(has_tcp, has_openssl):
        return Software("3.11.7", "/usr/bin/python3", {}, ["horovod", *(["tcp"] if has_tcp else [])], has_openssl)

    check_can_encrypt({"h1": software(True, True), "h2": software(True, True)})
    with pytest.raises(LaunchError, match=r"OpenSSL 3 is not on h2, h3") as caught:
        check_can_encrypt({"h1": software(True, True), "h2": software(True, False), "h3": software(True, False)})
    assert "libssl3" in caught.value.hint
    with pytest.raises(
        LaunchError, match=r"AutoDist's own library \(`tcp`\) is not on h1\n  OpenSSL 3 is not on h2"
    ) as caught:
        check_can_encrypt({"h1": software(False, True), "h2": software(True, False)})
    assert "g++" in caught.value.hint
