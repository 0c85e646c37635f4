"""Facts about a machine: interpreter, packages, hardware, disks, network; runs on the machine.

The standard library only, and nothing that is asked about is imported.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from autodist.agent.machine._addresses import interfaces, meanings, reached_by
from autodist.agent.machine._hardware import cores, gpus, memory, processors
from autodist.agent.machine._versions import compiler, versions

__all__ = ["clock", "gather"]

_TRIED_PORTS = 200
_RESOLVE_TIMEOUT_S = 8.0


def clock() -> float:
    """Return the time of this machine, in seconds since 1970."""
    return time.time()


def gather(directory: str, name: str, others: Sequence[str], first_port: int, last_port: int) -> dict[str, Any]:
    """Return the facts of this machine; what can't be found out is left empty.

    Args:
        directory: Working directory of its workers; ``~`` is the home.
        name: What the spec calls this machine.
        others: What it calls the other machines.
        first_port: First port of the range that servers choose from.
        last_port: The last one of it.
    """
    told = versions()
    return {
        "python": told["python"],
        "executable": told["executable"],
        "host_name": socket.gethostname(),
        "packages": {**told["packages"], **({"openssl": "3"} if told["has_openssl"] else {})},
        "compiler": compiler(),
        "cores": cores(),
        "processors": processors(),
        "memory": memory(),
        "gpus": gpus(),
        "disks": _disks(directory),
        "free_ports": _free_ports(range(first_port, last_port + 1)),
        "interfaces": interfaces(),
        "names": meanings([name, socket.gethostname(), *others], _RESOLVE_TIMEOUT_S),
        "address": reached_by(name, others)[0],
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def _disks(directory: str) -> dict[str, dict[str, Any]]:
    """Return path, free bytes and whether it can be written to, of each directory that workers write into."""
    places = {"directory": os.path.expanduser(directory), "tmp": tempfile.gettempdir(), "shm": "/dev/shm"}
    return {name: _disk(path) for name, path in places.items()}


def _disk(path: str) -> dict[str, Any]:
    there = os.path.abspath(path)
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = 0
    return {"path": path, "free": free, "is_writable": os.access(there, os.W_OK | os.X_OK)}


def _free_ports(ports: range) -> float:
    """Return which part of the range is free, by a sample."""
    tried = random.sample(ports, min(_TRIED_PORTS, len(ports)))
    return sum(map(_is_free, tried)) / len(tried)


def _is_free(port: int) -> bool:
    with socket.socket() as end:
        try:
            end.bind(("", port))
        except OSError:
            return False
    return True
