"""Room for the whole model where a worker's memory is for its part: values that the script makes go into files."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from autodist.after_import import after_import
from autodist.coordination import WorkerEnvironment
from autodist.resource_spec import ResourceSpec

__all__ = ["make_room"]

_SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
"""By default TensorFlow keeps all memory that it has ever had for tensors."""

_SHARE_FOR_VALUES = 1 / 16
"""Of the memory that a host has; values that are more than that go into files."""


def make_room(environment: WorkerEnvironment) -> None:
    """Have values of variables go into files, once the script has imported TensorFlow, if memory is limited."""
    room_bytes = _room_bytes(environment)
    if room_bytes is None:
        return

    os.environ.setdefault(_SYSTEM_ALLOCATOR, "1")

    def keep_in_files(_: ModuleType) -> None:
        from autodist.runtime.data import FILED_VALUES
        from autodist.runtime.state import keep_values_in_files

        if FILED_VALUES.open(environment.scratch, room_bytes):
            keep_values_in_files()
        elif environment.is_chief:
            sys.stderr.write(
                "warning: temporary files are in main memory, so each worker holds the whole model until its first "
                "step; let TMPDIR name a directory on a disk\n"
            )

    after_import("tensorflow", keep_in_files)


def _room_bytes(environment: WorkerEnvironment) -> int | None:
    """How many bytes of values may be in main memory; None for any number."""
    if environment.world_size == 1 or environment.spec_path is None:
        return None
    if (environment.strategy or "").startswith("Tiled"):
        return 0
    host = ResourceSpec.from_json(environment.spec_path.read_text()).hosts[environment.rank]
    return None if host.memory_gb is None else int(host.memory_gb * 1e9 * _SHARE_FOR_VALUES)
