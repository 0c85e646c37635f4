"""A mesh: the devices of a cluster, arranged along named axes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autodist.errors import SpecError
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._value_checks import repeated

_WRITTEN = "expected what `Mesh.to_json()` writes"


@dataclass(frozen=True)
class Mesh:
    """Devices arranged along named axes, that of the slowest link first.

    The last axis runs fastest: of the axes ``host`` (2) and ``device`` (4), device 5 is the second of the second host.

    Attributes:
        axes: Name and length of each axis.
        devices: Names of the devices, as many as the product of the lengths.

    Raises:
        SpecError: No axis, a name that is used twice or is not a Python name, a length below 1, a device given twice,
            or another number of devices than the axes have places.

    Example:
        >>> mesh = Mesh.of(ResourceSpec.from_yaml("nodes: [{address: a, cpus: 3}, {address: b, cpus: 3}]"))
        >>> mesh.axes, mesh.devices[3]
        ((('host', 2), ('device', 3)), 'b:CPU:0')
    """

    axes: tuple[tuple[str, int], ...]
    devices: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise SpecError("the mesh has no axis, it needs at least 1")
        for name, length in self.axes:
            if not name.isidentifier():
                raise SpecError(f"an axis of the mesh is called `{name}`, allowed: Python names")
            if length < 1:
                raise SpecError(f"the axis `{name}` of the mesh has the length {length}, it must be at least 1")
        for name in repeated(name for name, _ in self.axes):
            raise SpecError(f"two axes of the mesh are called `{name}`, names must be unique")
        for device in repeated(self.devices):
            raise SpecError(f"the device `{device}` is in the mesh twice, allowed: once")
        if len(self.devices) != prod(self.lengths):
            raise SpecError(f"the mesh has {len(self.devices)} devices, its axes {self.text} have {prod(self.lengths)}")

    @classmethod
    def of(cls, spec: ResourceSpec) -> Mesh:
        """The devices that hold replicas: hosts × devices, or one axis where hosts have different numbers of them."""
        devices = tuple(device.name for device in spec.replicas)
        counts = {len(host.replica_devices) for host in spec.hosts}
        if len(counts) > 1:
            return cls((("device", len(devices)),), devices)
        axes = (("host", spec.world_size), ("device", counts.pop()))
        return cls(tuple(axis for axis in axes if axis[1] > 1) or axes[1:], devices)

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(name for name, _ in self.axes)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(length for _, length in self.axes)

    @cached_property
    def length_of(self) -> dict[str, int]:
        """By name of an axis, its length."""
        return dict(self.axes)

    @property
    def text(self) -> str:
        """The axes as people read them.

        Example:
            >>> Mesh((("host", 2), ("device", 1)), ("a", "b")).text
            'host=2 x device=1'
        """
        return " x ".join(f"{name}={length}" for name, length in self.axes)

    def coordinates(self, device: str) -> dict[str, int]:
        """Where a device is along each axis.

        Raises:
            SpecError: It is not in the mesh.

        Example:
            >>> Mesh((("host", 2), ("device", 2)), ("a", "b", "c", "d")).coordinates("c")
            {'host': 1, 'device': 0}
        """
        if device not in self.devices:
            raise SpecError(f"`{device}` is not in the mesh, allowed: {', '.join(self.devices)}")
        rest, found = self.devices.index(device), {}
        for name, length in reversed(self.axes):
            rest, found[name] = divmod(rest, length)
        return dict(reversed(found.items()))

    def flat(self) -> Mesh:
        """The same devices along one axis."""
        return Mesh((("device", self.size),), self.devices)

    def factored(self) -> Mesh:
        """The same devices, with each axis cut into its prime factors, the largest first (Tofu, section 5.2).

        Example:
            >>> Mesh((("host", 12), ("device", 2)), tuple(f"d{k}" for k in range(24))).factored().text
            'host_1=3 x host_2=2 x host_3=2 x device=2'
        """
        return Mesh(tuple(itertools.chain.from_iterable(_factored(*axis) for axis in self.axes)), self.devices)

    def to_json(self) -> str:
        """Return one line of JSON, which :meth:`from_json` reads.

        Example:
            >>> mesh = Mesh((("host", 2),), ("a", "b"))
            >>> Mesh.from_json(mesh.to_json()) == mesh
            True
        """
        return json.dumps({"axes": self.axes, "devices": self.devices})

    @classmethod
    def from_json(cls, text: str) -> Mesh:
        """Return the mesh that :meth:`to_json` wrote.

        Raises:
            SpecError: Not JSON, or no mesh.
        """
        try:
            data = json.loads(text)
            axes = tuple((name, length) for name, length in data["axes"])
            devices = tuple(data["devices"])
            if not all(type(name) is str and type(length) is int for name, length in axes):
                raise TypeError("an axis is a name and a whole number")
            if not all(type(device) is str for device in devices):
                raise TypeError("a device is a name")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise SpecError(f"the mesh is damaged ({error!r}), {_WRITTEN}") from None
        return cls(axes, devices)


def _factored(name: str, length: int) -> Iterator[tuple[str, int]]:
    factors = sorted(_primes(length), reverse=True)
    if len(factors) < 2:
        yield name, length
        return
    for number, factor in enumerate(factors, 1):
        yield f"{name}_{number}", factor


def _primes(number: int) -> Iterator[int]:
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
