"""Trainings on emulated hosts, launched from their `head` as a user would."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from measuring import SCRIPTS

from autodist.resource_spec import ResourceSpec, to_yaml
from autodist.testing import EmulatedCluster

__all__ = ["by_name", "train_on_hosts"]

_RUNS, _CLUSTER = "/root/runs", "/root/cluster_of_run.yml"


def by_name(cluster: EmulatedCluster) -> ResourceSpec:
    """The hosts as a file can describe them: by the names under which they know each other."""
    return ResourceSpec(tuple(replace(host, address=host.name) for host in cluster.spec.hosts))


def train_on_hosts(
    cluster: EmulatedCluster,
    script: str,
    strategy: str,
    arguments: tuple[str, ...],
    timeout_s: float,
    options: tuple[str, ...] = (),
    spec: ResourceSpec | None = None,
) -> Path:
    """Run a script of the benchmarks on all hosts, or on those of a spec.

    What it wrote into its run's directory is in the one returned.
    """
    where = ["-H", ",".join(host.name for host in cluster.spec.hosts)]
    number = sum(1 for _ in (cluster.disk("head") / _RUNS[1:]).glob("*"))
    if spec is not None:
        (cluster.disk("head") / _CLUSTER[1:]).write_text(to_yaml(spec))
        where = ["--spec", _CLUSTER]
    run_dir = f"{_RUNS}/{number}"
    # Sources that are not installed are known to the hosts by this variable only.
    path = ("--env", "PYTHONPATH") if "PYTHONPATH" in os.environ else ()
    command = [
        sys.executable,
        "-m",
        "autodist",
        "run",
        str(SCRIPTS / script),
        *where,
        "--strategy",
        strategy,
        *options,
    ]
    done = cluster.run("head", [*command, "--run-dir", run_dir, *path, "--", *arguments], timeout_s=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"`{script}` with {strategy} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return cluster.disk("head") / run_dir[1:]
