"""Cores, memory and GPUs of this machine, as far as this process may use them; runs on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

__all__ = ["cores", "gpus", "memory", "processors"]

_NVIDIA_SMI_TIMEOUT_S = 20.0
_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUPS = "/proc/self/cgroup"
_DRIVERS_GPUS = "/proc/driver/nvidia/gpus"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_QUERY = ("--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits")


def cores() -> dict[str, float]:
    """Return the ``installed`` cores, and how many may be used: by affinity and by the quotas of control groups."""
    return {"installed": float(os.cpu_count() or 1), "usable": min((float(len(_numbers())), *_quotas()))}


def processors() -> dict[str, Any]:
    """Return which processors this process may compute on.

    Returns:
        ``kernel``, which is the same in all containers of a machine, and empty where nothing says it; the processors'
        ``numbers``; and how many of them are ``usable``, also by the quotas of control groups.
    """
    return {"kernel": " ".join(_words(_BOOT_ID, 1)), "numbers": _numbers(), "usable": cores()["usable"]}


def memory() -> dict[str, int]:
    """Return the bytes in ``total`` and ``available``, both within the limits of control groups."""
    told = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            told[name] = int(rest.split()[0]) * 1024
    total, available = told["MemTotal"], told.get("MemAvailable", told["MemFree"])
    for limit, used in _memory_limits():
        if limit < told["MemTotal"]:
            total, available = min(total, limit), min(available, max(0, limit - used))
    return {"total": total, "available": available}


def gpus() -> list[dict[str, Any]]:
    """Return ``index``, ``name``, ``memory_mb`` and ``used_mb`` of each NVIDIA GPU.

    Inside a Slurm job these are the GPUs of the job, counted from 0.
    """
    found, given = _all_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or "SLURM_JOB_ID" not in os.environ:
        return found
    known = {str(gpu["index"]): gpu for gpu in found}
    entries = [entry for entry in given.split(",") if entry]
    return [{**known[entry], "index": place} for place, entry in enumerate(entries) if entry in known]


def _all_gpus() -> list[dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return _gpus_of_the_driver()
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT_S, check=True
        )
        return [_gpu(line) for line in done.stdout.splitlines() if line.strip()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _gpus_of_the_driver() -> list[dict[str, Any]]:
    """Return what is known without ``nvidia-smi``, which containers often do without."""
    try:
        count = len(os.listdir(_DRIVERS_GPUS))
    except OSError:
        return []
    return [{"index": index, "name": "", "memory_mb": 0.0, "used_mb": 0.0} for index in range(count)]


def _gpu(line: str) -> dict[str, Any]:
    index, rest = line.split(",", 1)
    name, total, used = rest.rsplit(",", 2)
    return {"index": int(index), "name": name.strip(), "memory_mb": float(total), "used_mb": float(used)}


def _numbers() -> list[int]:
    """The processors of this process' affinity."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _quotas() -> Iterator[float]:
    """Yield the cores that each control group around this process allows."""
    for directory in _groups("cpu"):
        old = (*_words(f"{directory}/cpu.cfs_quota_us", 1), *_words(f"{directory}/cpu.cfs_period_us", 1))
        words = _words(f"{directory}/cpu.max", 2) or old
        # Without a quota the first word is "max", or -1.
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0:
            yield int(words[0]) / int(words[1])


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group around this process, in bytes."""
    for directory in _groups("memory"):
        for limit_file, use_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _words(f"{directory}/{limit_file}", 1), _words(f"{directory}/{use_file}", 1)
            if limit and limit[0].isdecimal():
                yield int(limit[0]), int(used[0]) if used and used[0].isdecimal() else 0


def _groups(controller: str) -> Iterator[str]:
    """Yield the directories of this process' control groups, version 1 and 2, and of those around them."""
    try:
        with open(_OWN_CGROUPS, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = _CGROUPS
        elif controller in controllers.split(","):
            root = f"{_CGROUPS}/{controller}"
        else:
            continue
        while True:
            yield root + path.rstrip("/")
            if path in ("", "/"):
                break
            path = os.path.dirname(path)


def _words(path: str, count: int) -> tuple[str, ...]:
    """Return the words of a file if there are this many, else none."""
    try:
        with open(path, encoding="ascii") as file:
            words = tuple(file.read().split())
    except (OSError, ValueError):
        return ()
    return words if len(words) == count else ()
