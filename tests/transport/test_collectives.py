"""The library's operations in TensorFlow's graphs, between real processes."""

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("worker.py")


def run(case, count):
    """Run a case on several processes; returns what each has written, and how it ended."""
    sockets = [[-1] * count for _ in range(count)]
    ends = []
    for one, other in itertools.combinations(range(count), 2):
        pair = socket.socketpair()
        ends += pair
        sockets[one][other], sockets[other][one] = (end.fileno() for end in pair)
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(count), case, *map(str, mine)],
            pass_fds=[number for number in mine if number >= 0],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, mine in enumerate(sockets)
    ]
    for end in ends:
        end.close()
    try:
        return [(process.communicate(timeout=250)[0], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


SLOW = pytest.mark.slow  # what `coded` does as well, over links that are not slow; and more processes
CASES = [
    ("coded", 3), pytest.param("lost", 3, marks=SLOW),
    pytest.param("sums", 2, marks=SLOW), pytest.param("sums", 5, marks=SLOW), pytest.param("everything", 3, marks=SLOW),
]  # fmt: skip


@pytest.mark.parametrize(("case", "count"), CASES)
def test_on_several_processes(case, count):
    for told, code in run(case, count):
        assert code == 0, told
