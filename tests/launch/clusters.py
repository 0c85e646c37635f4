"""A person at the host `head` of emulated hosts, who launches from there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

HEAD = """import os, signal, sys, time
from autodist.coordination import current_worker
w = current_worker()
w.steps_taken += 1
"""
TRAINING = """
import time
import numpy as np
import tensorflow as tf
import autodist

print("up", flush=True)
with autodist.scope() as ad:
    weights = tf.Variable(tf.ones([64, 64]))

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights))
        weights.assign_sub(0.001 * tape.gradient(loss, weights))
        return loss

    for number in range(100_000):
        step(np.ones([8, 64], np.float32))
        print("step", number, flush=True)
        time.sleep(0.1)
"""
"""A script that says which step it has taken, and takes more of them than any test waits for."""
WORK = "/root/my work"


class Person:
    """Somebody at `head`, in a directory of theirs."""

    def __init__(self, cluster, hosts):
        self.cluster = cluster
        self.hosts = hosts
        self.write("script", "")

    def write(self, name, text, host="head"):
        path = name if name.startswith("/") else f"{WORK}/{name}"
        folder = path.rpartition("/")[0]
        done = self.cluster.run(host, ["sh", "-c", 'mkdir -p "$1" && cat > "$0"', path, folder], given=text)
        assert done.returncode == 0, done.stderr
        return path

    def read(self, name, host="head"):
        return (self.cluster.disk(host) / WORK[1:] / name).read_text()

    def command(self, *args, env=None):
        # Where the tests run from a copy of the sources that is not installed, workers need to know it as well.
        more = ["--env", "PYTHONPATH"] if "PYTHONPATH" in os.environ else []
        shell = ["sh", "-c", 'cd "$0" && exec "$@"', WORK]
        return [*shell, sys.executable, "-m", "autodist", "run", *more, "--grace", "2", *args]

    def call(self, *args):
        """Run another command of AutoDist."""
        shell = ["sh", "-c", 'cd "$0" && exec "$@"', WORK]
        return self.cluster.run("head", [*shell, sys.executable, "-m", "autodist", *args], timeout_s=60.0)

    def run(self, *args, env=None, timeout_s=150.0):
        return self.cluster.run("head", self.command(*args), env=env, timeout_s=timeout_s)

    def start(self, *args):
        command = self.cluster.command("head", self.command(*args))
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")

    def events(self, run="runs/latest"):
        latest = os.readlink(self.cluster.disk("head") / WORK[1:] / run) if run.endswith("latest") else run
        lines = self.read(f"runs/{latest}/events.jsonl").splitlines()
        return [json.loads(line) for line in lines]

    def run_dir(self):
        folder = self.cluster.disk("head") / WORK[1:] / "runs"
        return folder / os.readlink(folder / "latest")

    def left(self):
        """What is left on the hosts of processes and files, after a moment in which they may still go."""
        deadline = time.monotonic() + 15.0
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _left(self):
        processes = {host: list(self.cluster.processes(host).values()) for host in self.hosts}
        folders = [self.cluster.disk(host) / "root/.cache/autodist/runs" for host in self.hosts]
        files = [str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()]
        return [f"{host}: {line}" for host, lines in processes.items() for line in lines] + files


def lines_of(text, rank):
    """What a worker wrote, from the console."""
    return re.findall(rf"^\[{rank}\] (.*)$", text, re.MULTILINE)
