"""The parts of a cluster: hosts with their devices, and the links between them."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Literal

from autodist.errors import SpecError
from autodist.resource_spec._value_checks import check_positive, is_loopback

DEFAULT_BANDWIDTH_GBPS = 1.0
DEFAULT_LATENCY_MS = 0.1
BYTES_PER_GBIT = 1e9 / 8

_DEVICE = re.compile(r"(.+):(CPU|GPU):(0|[1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, order=True)
class Device:
    """One device of one host, ``host:CPU:0`` or ``host:GPU:1``.

    Attributes:
        host: Name of its :class:`Host`; may contain colons (IPv6).
        kind: ``"CPU"`` or ``"GPU"``.
        index: Its number among the devices of this kind that the host's worker sees, >= 0. That is TensorFlow's
            number: a worker with the CUDA devices 2 and 3 has ``GPU:0`` and ``GPU:1``.

    Example:
        >>> Device("fe80::1", "CPU", 0).name
        'fe80::1:CPU:0'
    """

    host: str
    kind: Literal["CPU", "GPU"]
    index: int

    @property
    def name(self) -> str:
        """``host:KIND:index``, what strategies write."""
        return f"{self.host}:{self.kind}:{self.index}"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, text: str) -> Device:
        """Return the device of this name.

        Raises:
            SpecError: The text is not a device name.

        Example:
            >>> Device.parse("worker1:GPU:3")
            Device(host='worker1', kind='GPU', index=3)
        """
        match = _DEVICE.fullmatch(text)
        if match is None:
            raise SpecError(f"`{text}` is not a device, expected `host:CPU:index` or `host:GPU:index`")
        return cls(match[1], "CPU" if match[2] == "CPU" else "GPU", int(match[3]))


@dataclass(frozen=True)
class Ssh:
    """How to log in to a host; what is ``None`` is left to ``~/.ssh/config``.

    Attributes:
        username: Login name.
        port: TCP port of sshd, 1 to 65535.
        key_file: Path of the private key on the machine that launches.
        python_venv: Shell command that activates a virtual environment; ``Host.python`` needs no shell.
        shared_envs: Environment variables of every worker that logs in this way; ``Host.env`` comes on top.

    Example:
        >>> Ssh(username="ubuntu", port=2222).port
        2222
    """

    username: str | None = None
    port: int | None = None
    key_file: str | None = None
    python_venv: str | None = None
    shared_envs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Host:
    """One worker process, and the part of a machine that it has.

    Attributes:
        name: Unique in its spec: the address, followed by ``#1``, ``#2``... from the second worker of an address on.
        address: Host name or IP address under which all other hosts reach it.
        chief: Whether it is the chief, the worker of rank 0.
        cpus: Number of CPU devices, >= 1.
        gpus: CUDA ids of its GPUs, as in ``CUDA_VISIBLE_DEVICES``.
        bandwidth_gbps: Bandwidth of its network interface in Gbit/s, > 0.
        memory_gb: Main memory that the worker may use, in GB (10^9 bytes); ``None`` if not known.
        price_per_hour: What the worker costs in an hour, in any currency, >= 0; ``None`` if not known.
        cores_shared_by: How many workers compute on its processors at the same time, >= 1, such as virtual machines
            of one machine.
        burst_kb: How much its network interface passes at full speed after a rest, in KB (10^3 bytes), >= 0: the depth
            of the token bucket that bounds its bandwidth; 0 for none.
        python: Path of the Python interpreter on the host; ``None``: the launching one's.
        directory: Working directory of the worker, ``~`` is the home there; ``None``: the path of the launching one's.
        env: Environment variables of the worker.
        ssh: How to log in; ``None``: as ``~/.ssh/config`` says.

    Example:
        >>> host = Host("worker1", "worker1", cpus=2)
        >>> [device.name for device in host.replica_devices]
        ['worker1:CPU:0', 'worker1:CPU:1']
    """

    name: str
    address: str
    chief: bool = False
    cpus: int = 1
    gpus: tuple[int, ...] = ()
    bandwidth_gbps: float = DEFAULT_BANDWIDTH_GBPS
    memory_gb: float | None = None
    python: str | None = None
    directory: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    ssh: Ssh | None = None
    price_per_hour: float | None = None
    cores_shared_by: int = 1
    burst_kb: float = 0.0

    def __post_init__(self) -> None:
        if not self.name or not self.address:
            raise SpecError(f"host `{self.name}` has the address `{self.address}`, neither may be empty")
        if self.cpus < 1:
            raise SpecError(f"host `{self.name}` has {self.cpus} CPU devices, it needs at least 1")
        if self.cores_shared_by < 1:
            raise SpecError(f"cores_shared_by of host `{self.name}` is {self.cores_shared_by}, it must be at least 1")
        if len(set(self.gpus)) != len(self.gpus) or any(gpu < 0 for gpu in self.gpus):
            raise SpecError(f"host `{self.name}` has the GPUs {self.gpus}, expected different CUDA ids from 0")
        check_positive(f"bandwidth_gbps of host `{self.name}`", self.bandwidth_gbps)
        if self.memory_gb is not None:
            check_positive(f"memory_gb of host `{self.name}`", self.memory_gb)
        if self.price_per_hour is not None and not 0 <= self.price_per_hour < math.inf:  # refuses NaN as well
            raise SpecError(f"price_per_hour of host `{self.name}` is {self.price_per_hour}, it must be 0 or more")
        if not 0 <= self.burst_kb < math.inf:
            raise SpecError(f"burst_kb of host `{self.name}` is {self.burst_kb}, it must be 0 or more")

    @functools.cached_property
    def cpu_devices(self) -> tuple[Device, ...]:
        """Its CPU devices; variables of a parameter server live on the first."""
        return tuple(Device(self.name, "CPU", index) for index in range(self.cpus))

    @property
    def gpu_devices(self) -> tuple[Device, ...]:
        """Its GPUs, in the order of ``gpus``."""
        return tuple(Device(self.name, "GPU", index) for index in range(len(self.gpus)))

    @property
    def replica_devices(self) -> tuple[Device, ...]:
        """The devices that hold a replica: its GPUs, or its CPU devices where there is no GPU."""
        return self.gpu_devices or self.cpu_devices

    @property
    def is_local(self) -> bool:
        """Whether it is this machine: a loopback address or this machine's name."""
        import socket

        here = socket.gethostname().lower()
        return is_loopback(self.address) or self.address.lower() in {here, here.partition(".")[0]}


@dataclass(frozen=True)
class Link:
    """The network between two hosts, the same in both directions.

    Attributes:
        a: Name of one host.
        b: Name of the other host.
        bandwidth_gbps: Gbit/s, > 0.
        latency_ms: Milliseconds one way, >= 0.

    Example:
        >>> Link("worker1", "worker2", bandwidth_gbps=10, latency_ms=0.05).latency_ms
        0.05
    """

    a: str
    b: str
    bandwidth_gbps: float
    latency_ms: float = DEFAULT_LATENCY_MS

    def __post_init__(self) -> None:
        where = f"of the link between `{self.a}` and `{self.b}`"
        if self.a == self.b:
            raise SpecError(f"a link joins `{self.a}` with itself, it needs two different hosts")
        check_positive(f"bandwidth_gbps {where}", self.bandwidth_gbps)
        if not 0 <= self.latency_ms < math.inf:
            raise SpecError(f"latency_ms {where} is {self.latency_ms}, it must be 0 or more")
