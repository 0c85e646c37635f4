"""Hardware of this machine, found without importing TensorFlow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import Host
from autodist.resource_spec._value_checks import share_out

_NVIDIA_SMI_TIMEOUT_S = 20
_LISTED_GPU = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[0-9a-fA-F-]+)\)", re.MULTILINE)
_PROC_GPUS = Path("/proc/driver/nvidia/gpus")


def local_hosts(workers: int, cpus: int | None) -> tuple[Host, ...]:
    """Return the hosts of ``ResourceSpec.local``, chief first.

    Raises:
        SpecError: A number below 1, or fewer GPUs than workers.
    """
    for name, value in (("workers", workers), ("cpus", 1 if cpus is None else cpus)):
        if value < 1:
            raise SpecError(f"`{name}` is {value}, it must be at least 1")
    gpus = detect_gpus() if cpus is None else ()
    try:
        shares = share_out(gpus, workers)
    except SpecError as error:
        raise SpecError(error.message, hint="give `cpus=1` to train on the CPU") from None
    return tuple(
        Host(f"localhost#{rank}" if rank else "localhost", "localhost", chief=not rank, cpus=cpus or 1, gpus=share)
        for rank, share in enumerate(shares)
    )


def default_kind() -> Literal["CPU", "GPU"]:
    """Return what most likely is meant by a number of devices: what this machine trains on."""
    return "GPU" if detect_gpus() else "CPU"


def detect_gpus() -> tuple[int, ...]:
    """Return the CUDA ids of this machine's NVIDIA GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible."""
    uuids = _list_gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(range(len(uuids)))
    ids: list[int] = []
    for entry in filter(None, visible.split(",")):
        gpu = _resolve(entry.strip(), uuids)
        # CUDA ignores whatever follows the first entry that is wrong.
        if gpu is None or gpu in ids:
            break
        ids.append(gpu)
    return tuple(ids)


def _resolve(entry: str, uuids: list[str]) -> int | None:
    if re.fullmatch(r"[0-9]{1,6}", entry):
        return int(entry) if int(entry) < len(uuids) else None
    matches = [gpu for gpu, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def _list_gpus() -> list[str]:
    """Return the UUID of each GPU by CUDA id, or empty texts where only the driver's own list is there."""
    if nvidia_smi := shutil.which("nvidia-smi"):
        listed = _run(nvidia_smi, "-L")
        if listed is not None:
            return [uuid for _, uuid in _LISTED_GPU.findall(listed)]
    try:
        return [""] * len(list(_PROC_GPUS.iterdir()))
    except OSError:
        return []


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout
