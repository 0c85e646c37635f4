"""Room for the whole model where a worker's memory is for its part: values that the script makes go into files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import ModuleType

from autodist.after_import import after_import
from autodist.coordination import WorkerEnvironment
from autodist.resource_spec import ResourceSpec

_SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
"""The variable by which TensorFlow gives back memory of tensors; by default it keeps all that it ever had."""

_SHARE_FOR_VALUES = 1 / 16
"""A share of the memory that a host has; larger values go into files."""

_SHARE_THAT_IS_AMPLE = 1 / 2
"""A share of the memory that a host has; larger values leave little of it to gradients and everything else."""


@dataclass(frozen=True)
class _Room:
    """How many bytes of values may be in main memory, and from how many on it is scarce; None: it never is."""

    values_bytes: int
    ample_bytes: int | None


def make_room(environment: WorkerEnvironment) -> None:
    """Have values of variables go into files, once the script has imported TensorFlow, if memory is limited."""
    room = _room(environment)
    if room is None:
        return

    os.environ.setdefault(_SYSTEM_ALLOCATOR, "1")

    def keep_in_files(_: ModuleType) -> None:
        from autodist.runtime.data import FILED_VALUES
        from autodist.runtime.state import keep_values_in_files

        if FILED_VALUES.open(environment.scratch, room.values_bytes, room.ample_bytes):
            keep_values_in_files()
        elif environment.is_chief:
            sys.stderr.write(
                "warning: temporary files are in main memory, so each worker holds the whole model until its first "
                "step; let TMPDIR name a directory on a disk\n"
            )

    after_import("tensorflow", keep_in_files)


def _room(environment: WorkerEnvironment) -> _Room | None:
    """The room that values have; None for any."""
    if environment.world_size == 1 or environment.spec_path is None:
        return None
    host = ResourceSpec.from_json(environment.spec_path.read_text()).hosts[environment.rank]
    memory_bytes = None if host.memory_gb is None else host.memory_gb * 1e9
    ample_bytes = None if memory_bytes is None else int(memory_bytes * _SHARE_THAT_IS_AMPLE)
    if (environment.strategy or "").startswith("Tiled"):
        return _Room(0, ample_bytes)
    return None if memory_bytes is None else _Room(int(memory_bytes * _SHARE_FOR_VALUES), ample_bytes)
