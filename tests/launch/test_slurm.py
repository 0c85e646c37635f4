"""Runs inside a Slurm job: the launcher is on its first node, and a stand-in `srun` reaches the others."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .clusters import HEAD, WORK, Person, lines_of
from .test_cluster import TRAIN

pytestmark = pytest.mark.emulated

STAND_IN = Path(__file__).parents[1] / "remote" / "srun"
JOB = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "head,h[1-2]", "SLURM_TASKS_PER_NODE": "2(x3)", "SLURM_NTASKS": "6",
    "STAND_IN_NODES": "head h1 h2", "STAND_IN_STEPS": "/root/steps", "STAND_IN_ROAD": "ssh",
    "SLURM_GPUS": "6", "SLURM_CPUS_PER_TASK": "4", "SLURM_GPUS_ON_NODE": "", "CUDA_VISIBLE_DEVICES": "5,7",
    "PATH": f"/root/bin:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
}  # fmt: skip


class Submitter(Person):
    """Somebody in the job's shell."""

    def run(self, *args, env=None, timeout_s=150.0):
        return super().run(*args, env=JOB | (env or {}), timeout_s=timeout_s)


@pytest.fixture
def submitter(emulate):
    cluster = emulate(2)
    for name in ("bin", "steps"):
        (cluster.disk("head") / "root" / name).mkdir()
    shutil.copy(STAND_IN, cluster.disk("head") / "root" / "bin" / "srun")
    submitter = Submitter(cluster, ("head", "h1", "h2"))
    yield submitter
    assert submitter.left() == []


def test_the_allocation_is_the_cluster(submitter):
    submitter.write(
        "train.py",
        HEAD + "import json\nspec = json.load(open(os.environ['AUTODIST_SPEC']))\n"
        "print(os.uname().nodename, os.environ.get('SLURMD_NODENAME'), os.getcwd(), os.environ.get('HF_TOKEN'))\n"
        "print(w.rank, [(host['name'], host['cpus']) for host in spec['hosts']])\n",
    )
    result = submitter.run("train.py", env={"HF_TOKEN": "hidden"})
    assert result.returncode == 0, result.stderr
    for rank, (host, node) in enumerate({"head": None, "h1": "h1", "h2": "h2"}.items()):
        place, spec = lines_of(result.stdout, rank)
        token = "hidden" if host == "head" else None
        assert place == f"{host} {node} {WORK} {token}"
        assert spec == f"{rank} [('head', 2), ('h1', 2), ('h2', 2)]"


@pytest.mark.slow
def test_gpus_are_counted_among_those_of_the_job(submitter):
    submitter.write("train.py", HEAD + "print(os.environ['CUDA_VISIBLE_DEVICES'])\n")
    result = submitter.run("train.py", env={"SLURM_GPUS_ON_NODE": "2"})
    assert result.returncode == 0, result.stderr
    assert [lines_of(result.stdout, rank) for rank in range(3)] == [["5,7"]] * 3


def test_nothing_is_left_when_the_launcher_is_killed(submitter):
    submitter.write("train.py", HEAD + "print('up', flush=True)\ntime.sleep(300)")
    # srun may find its output closed before it passes on that its input has ended. Then only silence tells the agents,
    # and they must have ended within the time that `left` waits.
    command = submitter.cluster.command("head", submitter.command("--host-timeout", "8", "train.py"), env=JOB)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as process:
        assert sorted(process.stdout.readline() for _ in range(3)) == [f"[{rank}] up\n" for rank in range(3)]
        [launcher] = [
            pid
            for pid, line in submitter.cluster.processes("head").items()
            if "-m autodist run" in line and "nsenter" not in line
        ]
        os.kill(launcher, signal.SIGKILL)
        process.communicate(timeout=60)


@pytest.mark.slow
def test_a_failing_worker_ends_the_others(submitter):
    submitter.write("train.py", HEAD + "if w.rank == 2: sys.exit(9)\ntime.sleep(300)")
    result = submitter.run("train.py")
    assert result.returncode == 9, result.stderr
    assert "first failure  worker 2 of 3 on h2" in result.stderr


def test_doctor_takes_the_allocation(submitter):
    command = [sys.executable, "-m", "autodist", "doctor", "--json"]
    result = submitter.cluster.run("head", command, env=JOB, timeout_s=120)
    assert result.returncode == 0, result.stdout + result.stderr
    told = json.loads(result.stdout)
    assert [host["host"] for host in told["hosts"]] == ["head", "h1", "h2"]
    connections = [finding for finding in told["findings"] if finding["check"] == "connections"]
    assert [(finding["host"], finding["status"]) for finding in connections] == [
        (host, "OK") for host in ("head", "h1", "h2")
    ]


@pytest.mark.slow
def test_training_in_an_allocation(submitter):
    submitter.write("train.py", TRAIN)
    result = submitter.run("train.py", "--host-timeout", "20", timeout_s=280)
    assert result.returncode == 0, result.stderr
    [first], [second], [third] = (lines_of(result.stdout, rank) for rank in range(3))
    assert first == second == third
