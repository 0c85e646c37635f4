"""Runs on four emulated hosts: what the launch adds to the first step, and how soon a broken run is over.

A cluster has cores for each of its workers, here all share a few. So the launch is compared with the same script, by
plain python, on the same hosts at the same time; and what it adds is also given in CPU seconds, those of the launcher
and of one worker, which is what the clock would show if each had a core.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import SCRIPTS, Result, Row, alternate, progress, ratio_row, row

from autodist.testing import EmulatedCluster

_HOSTS = ("h1", "h2", "h3", "h4")
_RATE = "1gbit"
_GRACE_S = 5.0
_MOST_ADDED_S = 3.0
_MOST_AFTER_GRACE_S = 5.0
_TIMEOUT_S = 200.0
_STARTS = re.compile(r"first step (\{.*\})")


@dataclass(frozen=True)
class _Start:
    """From the command to the first step of the last worker.

    Attributes:
        clock_s: By the clock.
        worker_cpu_s: CPU time of one worker, the largest.
        launcher_cpu_s: CPU time of what runs on the launching host.
    """

    clock_s: float
    worker_cpu_s: float
    launcher_cpu_s: float


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    with EmulatedCluster(len(_HOSTS), _RATE) as cluster:
        (cluster.disk("head") / "root" / "cluster.yml").write_text("nodes: [{address: 'h[1-4]'}]\n")
        rows = [*_launch_rows(cluster, 1 if quick else 2), *_end_rows(cluster, 1 if quick else 2)]
    notes = (f"{len(_HOSTS)} emulated hosts with {_RATE} each; a grace time of {_GRACE_S:g} s, no worker ends in it",)
    return Result("hosts", tuple(rows), notes)


# --- to the first step


def _launch_rows(cluster: EmulatedCluster, pairs: int) -> list[Row]:
    _plain(cluster)  # reads TensorFlow from the disk, once for all
    plain: list[_Start] = []
    ours: list[_Start] = []
    limit, launched = alternate(lambda: _keep(plain, _plain(cluster)), lambda: _keep(ours, _launched(cluster)), pairs)
    added = [mine - best for mine, best in zip(launched, limit, strict=True)]
    cpu = [mine.launcher_cpu_s + mine.worker_cpu_s - best.worker_cpu_s for mine, best in zip(ours, plain, strict=True)]
    return [
        row("plain python on all hosts, to the first step", limit, "s"),
        row("autodist run, to the first step", launched, "s"),
        ratio_row("ratio", launched, limit, "plain python"),
        row("added", added, "s"),
        row("added, CPU time of launcher and one worker", cpu, "s", target=_MOST_ADDED_S),
    ]


def _keep(starts: list[_Start], start: _Start) -> float:
    starts.append(start)
    return start.clock_s


def _plain(cluster: EmulatedCluster) -> _Start:
    progress("hosts: plain python")
    command = [sys.executable, str(SCRIPTS / "timed_first_step.py")]
    return _timed([cluster.command(host, command) for host in _HOSTS])


def _launched(cluster: EmulatedCluster) -> _Start:
    progress("hosts: autodist run")
    command = ["autodist", "run", str(SCRIPTS / "timed_first_step.py"), "--strategy", "PSLoadBalancing"]
    return _timed([cluster.command("head", command)])


def _timed(commands: Sequence[Sequence[str]]) -> _Start:
    with tempfile.TemporaryFile("w+") as output:
        began = time.time()
        # Linux shares cores out among sessions, so each gets one of its own, as a login has.
        processes = [
            subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) for command in commands
        ]
        usages = [_end(process) for process in processes]
        output.seek(0)
        told = output.read()
    steps = [json.loads(text) for text in _STARTS.findall(told)]
    if len(steps) != len(_HOSTS) or any(process.returncode for process in processes):
        raise RuntimeError(f"{len(steps)} first steps of {len(_HOSTS)}:\n{told[-2000:]}")
    return _Start(
        max(step["time_s"] for step in steps) - began,
        max(step["cpu_s"] for step in steps),
        max(usage.ru_utime + usage.ru_stime for usage in usages),
    )


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> resource.struct_rusage:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


# --- to the end


def _end_rows(cluster: EmulatedCluster, times: int) -> list[Row]:
    breaks = {"a worker is killed": _kill_worker, "a host is cut off": _cut_host}
    rows = []
    for name, do in breaks.items():
        progress(f"hosts: {name}")
        seconds = [_end_s(cluster, do) for _ in range(times)]
        rows.append(row(f"{name}, until all is stopped", seconds, "s", target=_GRACE_S + _MOST_AFTER_GRACE_S))
    return rows


def _kill_worker(cluster: EmulatedCluster) -> None:
    worker = next(pid for pid, line in cluster.processes("h3").items() if "unending.py" in line)
    os.kill(worker, signal.SIGKILL)


def _cut_host(cluster: EmulatedCluster) -> None:
    cluster.cut("h3")


def _end_s(cluster: EmulatedCluster, do: Callable[[EmulatedCluster], None]) -> float:
    command = ["autodist", "run", str(SCRIPTS / "unending.py"), "--grace", str(_GRACE_S), "--no-check-versions"]
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(cluster.command("head", command), stdout=output, stderr=output)
        _wait(lambda: Path(output.name).read_text().count("] up") == len(_HOSTS) or process.poll() is not None)
        began = time.monotonic()
        do(cluster)
        _wait(lambda: process.poll() is not None and not any(cluster.processes(host) for host in _HOSTS))
    took_s = time.monotonic() - began
    cluster.heal("h3")
    if process.returncode != 1:
        raise RuntimeError(f"the broken run ended with {process.returncode}")
    return took_s


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing happened for {_TIMEOUT_S:g} s")
        time.sleep(0.02)
