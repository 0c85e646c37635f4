"""The devices that Keras lists: those of the cluster, not of one machine."""

from __future__ import annotations

from typing import Any

from autodist.resource_spec import ResourceSpec


def list_all_replicas(keras: Any, spec: ResourceSpec) -> None:
    """Have ``keras.distribution.list_devices()`` list all replicas of the cluster; scripts make meshes of these."""
    names = [f"{device.kind.lower()}:{number}" for number, device in enumerate(spec.replicas)]

    def list_devices(device_type: str | None = None) -> list[str]:
        """All devices that compute, on all hosts."""
        return [name for name in names if device_type in (None, name.partition(":")[0])]

    keras.distribution.list_devices = list_devices
    keras.src.distribution.distribution_lib.list_devices = list_devices
