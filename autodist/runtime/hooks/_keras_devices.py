"""Functions of `keras.distribution` that scripts for Keras on JAX call, and that Keras on TensorFlow lacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autodist.resource_spec import ResourceSpec
from autodist.runtime._keras_distribution import remembering


def list_all_replicas(keras: Any, spec: ResourceSpec) -> None:
    """Have ``keras.distribution.list_devices()`` list all replicas of the cluster; scripts make meshes of these.

    ``initialize()`` does nothing, because workers have met already, and ``distribute_tensor()`` gives the tensor back:
    AutoDist lays out what lies between the variables. Variables that are made in a distribution's ``scope()`` have its
    layouts afterwards as well, as with Keras on JAX, which lays variables out when they are made.
    """
    names = [f"{device.kind.lower()}:{number}" for number, device in enumerate(spec.replicas)]

    def list_devices(device_type: str | None = None) -> list[str]:
        """All devices that compute, on all hosts."""
        return [name for name in names if device_type is None or name.startswith(f"{device_type.lower()}:")]

    def get_device_count(device_type: str | None = None) -> int:
        """How many devices compute, on all hosts."""
        return len(list_devices(device_type))

    library = keras.src.distribution.distribution_lib
    for module in (keras.distribution, library):
        module.list_devices = list_devices
        module.get_device_count = get_device_count
    backend = library.distribution_lib
    backend.initialize = lambda *_: None
    backend.distribute_tensor = lambda tensor, _: tensor
    _remember_scopes(library.Distribution, keras.Variable)


def _remember_scopes(kind: Any, variables: type) -> None:
    scope = kind.scope

    @contextlib.contextmanager
    def remembered(distribution: Any) -> Iterator[None]:
        """Make the distribution current; variables that are made meanwhile have its layouts."""
        with remembering(distribution, variables), scope(distribution):
            yield

    kind.scope = remembered
