"""From typing a command to the end of a short training on two emulated hosts: `autodist run` and `horovodrun`.

Both are typed at a third host, with what they have as defaults: the strategy is the one that `auto` chooses. Horovod's
script was copied to the hosts before.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from measuring import SCRIPTS, Result, Row, alternate, progress, ratio_row, row

from autodist.testing import EmulatedCluster

_HOSTS = ("h1", "h2")
_RATE = "1gbit"
_SCRIPT = str(SCRIPTS / "first_command_training.py")
_STEPS = {"resnet": 200, "vgg": 200}
_TIMEOUT_S = 290.0
_MOST_TIME = 1.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with EmulatedCluster(len(_HOSTS), _RATE) as cluster:
        for model, steps in _STEPS.items():
            if quick:
                steps //= 10
            horovod, ours = alternate(
                lambda model=model, steps=steps: _horovod_s(cluster, model, steps),  # type: ignore[misc]
                lambda model=model, steps=steps: _autodist_s(cluster, model, steps),  # type: ignore[misc]
                1 if quick else 3,
            )
            name = f"{model}, {steps} steps"
            rows.append(row(f"{name}: horovodrun", horovod, "s"))
            rows.append(row(f"{name}: autodist run", ours, "s"))
            rows.append(ratio_row(f"{name}: ratio", ours, horovod, "Horovod", _MOST_TIME))
    notes = (f"{len(_HOSTS)} emulated hosts with {_RATE} each, a batch of 32; processes and tracing included",)
    return Result("first_command", tuple(rows), notes)


def _autodist_s(cluster: EmulatedCluster, model: str, steps: int) -> float:
    # Sources that are not installed are known to the hosts by this variable only.
    path = ("--env", "PYTHONPATH") if "PYTHONPATH" in os.environ else ()
    command = [sys.executable, "-m", "autodist", "run", "-H", ",".join(_HOSTS), *path, _SCRIPT]
    return _seconds(cluster, [*command, "autodist", model, str(steps)])


def _horovod_s(cluster: EmulatedCluster, model: str, steps: int) -> float:
    hosts = ",".join(f"{host}:1" for host in _HOSTS)
    launcher = [str(Path(sys.executable).with_name("horovodrun")), "--gloo", "--network-interfaces", "eth0"]
    command = [*launcher, "-np", str(len(_HOSTS)), "-H", hosts, sys.executable, _SCRIPT]
    return _seconds(cluster, [*command, "horovod", model, str(steps)])


def _seconds(cluster: EmulatedCluster, command: list[str]) -> float:
    progress(f"first_command: {' '.join(command[-4:])}")
    began = time.monotonic()
    ended = cluster.run("head", command, timeout_s=_TIMEOUT_S)
    seconds = time.monotonic() - began
    if ended.returncode or "loss" not in ended.stdout + ended.stderr:
        told = (ended.stdout + ended.stderr)[-3000:]
        raise RuntimeError(f"`{' '.join(command)}` ended with {ended.returncode}:\n{told}")
    return seconds
