"""Several hosts on one Linux machine: network namespaces on a bridge, with links of a given rate.

Everything a host does to another one crosses its own network interface, so bandwidth is what the rate says and the
kernel counts the bytes. Nothing of this machine's own network is touched. Needs root, iproute2 and util-linux.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from autodist.errors import LaunchError
from autodist.launch import Job, LocalLauncher, Meeting, Place, WorkerCommand, plan_workers
from autodist.resource_spec import Host, ResourceSpec

__all__ = ["EmulatedCluster", "EmulatedLauncher"]

_NETWORK = "10.77.0"
_HEAD = 254
"""Last number of the address of the host that launches."""

_INTERFACE = "eth0"
_BURST = "256k"  # at least one 64 KiB frame of segmentation offload; 32k cost 30 % of a core
_LATENCY = "20ms"
_TOOLS = ("ip", "tc", "unshare")


class EmulatedCluster:
    """Hosts ``h1``, ``h2``... that exist while the context is open.

    Args:
        num_hosts: How many, 1 to 200.
        rate: Of every host's link in each direction, as ``tc`` writes it (``"1gbit"``); None leaves links unshaped.
        cpus: CPU devices of each host, which all share this machine's cores.

    Raises:
        LaunchError: A tool is missing, or this process is not root's.

    Example:
        >>> with EmulatedCluster(2, "1gbit") as cluster:                       # doctest: +SKIP
        ...     cluster.call([sys.executable, "benchmark_in_the_cluster.py"])
    """

    def __init__(self, num_hosts: int, rate: str | None = None, *, cpus: int = 1) -> None:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing or os.geteuid() != 0:
            reason = f"{', '.join(missing)} not found" if missing else "this process is not root's"
            raise LaunchError(f"hosts can't be emulated here: {reason}", hint="needs root, iproute2 and util-linux")
        self.num_hosts = num_hosts
        self.rate = rate
        self.cpus = cpus
        self._prefix = f"ad{secrets.token_hex(3)}"
        self._namespaces: list[str] = []
        self._directory = Path()

    @property
    def spec(self) -> ResourceSpec:
        """The hosts as a cluster."""
        return ResourceSpec(tuple(Host(f"h{i}", f"{_NETWORK}.{i}", cpus=self.cpus) for i in self._numbers))

    @property
    def _numbers(self) -> range:
        return range(1, self.num_hosts + 1)

    def __enter__(self) -> EmulatedCluster:
        self._directory = Path(tempfile.mkdtemp(prefix="autodist-hosts-"))
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build(self) -> None:
        switch = self._namespace("sw")
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        names = {number: f"h{number}" for number in self._numbers} | {_HEAD: "head"}
        lines = [f"{_NETWORK}.{number} {name}" for number, name in names.items()]
        (self._directory / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        for number, name in names.items():
            self._plug(switch, number, name)

    def _plug(self, switch: str, number: int, name: str) -> None:
        """Make a host and connect it to the switch."""
        host, port = self._namespace(name), f"p{number}"
        _run("ip", "link", "add", _INTERFACE, "netns", host, "type", "veth", "peer", "name", port, "netns", switch)
        _run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
        _run("ip", "-n", host, "addr", "add", f"{_NETWORK}.{number}/24", "dev", _INTERFACE)
        _run("ip", "-n", host, "link", "set", _INTERFACE, "up")
        if self.rate is not None and number != _HEAD:
            for namespace, device in ((host, _INTERFACE), (switch, port)):
                shape = ("root", "tbf", "rate", self.rate, "burst", _BURST, "latency", _LATENCY)
                _run("ip", "netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, *shape)

    def _namespace(self, name: str) -> str:
        full = f"{self._prefix}-{name}"
        _run("ip", "netns", "add", full)
        self._namespaces.append(full)
        _run("ip", "-n", full, "link", "set", "lo", "up")
        return full

    def close(self) -> None:
        """End all that still runs in the hosts, and remove them."""
        for name in reversed(self._namespaces):
            deadline = time.monotonic() + 5.0
            while (pids := _run("ip", "netns", "pids", name).split()) and time.monotonic() < deadline:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.05)
            _run("ip", "netns", "del", name)
        self._namespaces.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def inside(self, name: str, argv: Sequence[str]) -> tuple[str, ...]:
        """A command that runs another one on a host, or on ``head``, in the same process."""
        script = 'hostname "$0"; mount --bind "$1" /etc/hosts; shift; exec "$@"'
        shell = ("unshare", "--uts", "--mount", "sh", "-euc", script, name, str(self._directory / "hosts"))
        return ("ip", "netns", "exec", f"{self._prefix}-{name}", *shell, *argv)

    def call(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 600.0) -> str:
        """Run a command on the launching host; returns what it writes to standard output.

        A program there starts workers on the hosts by :class:`EmulatedLauncher`.

        Raises:
            LaunchError: It failed, or took too long; its standard error is in the message.
        """
        whole = {**os.environ, **(env or {}), "AUTODIST_EMULATED": self._description}
        try:
            result = subprocess.run(
                self.inside("head", argv), env=whole, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise LaunchError(f"`{' '.join(argv)}` took longer than {timeout_s:.0f} s on emulated hosts") from error
        if result.returncode != 0:
            raise LaunchError(f"`{' '.join(argv)}` ended with {result.returncode}:\n{result.stderr[-3000:]}")
        return result.stdout

    def sent_bytes(self) -> tuple[int, ...]:
        """Bytes that each host has sent to others so far, all headers included."""
        path = f"/sys/class/net/{_INTERFACE}/statistics/tx_bytes"
        return tuple(int(_run(*self.inside(f"h{number}", ["cat", path]))) for number in self._numbers)

    @property
    def _description(self) -> str:
        return f"{self._prefix} {self._directory} {self.num_hosts} {self.cpus}"

    @classmethod
    def current(cls) -> EmulatedCluster:
        """The cluster on whose launching host this process runs.

        Raises:
            LaunchError: It runs on no such host.
        """
        described = os.environ.get("AUTODIST_EMULATED", "").split()
        if len(described) != 4:
            raise LaunchError("this process runs on no emulated host", hint="start it by `EmulatedCluster.call`")
        prefix, directory, num_hosts, cpus = described
        cluster = cls(int(num_hosts), cpus=int(cpus))
        cluster._prefix, cluster._directory = prefix, Path(directory)
        return cluster


@dataclass(frozen=True)
class EmulatedLauncher(LocalLauncher):
    """Starts each worker on its emulated host; runs on the cluster's launching host."""

    address: str = f"{_NETWORK}.{_HEAD}"

    def commands(self, job: Job, meeting: Meeting) -> list[WorkerCommand]:
        """Return the workers' commands, each inside its host."""
        cluster = EmulatedCluster.current()
        hosts = job.spec.hosts
        places = [Place(0, 1, rank, host.address, host.name, _INTERFACE) for rank, host in enumerate(hosts)]
        commands = plan_workers(job, meeting, places)
        return [replace(c, argv=cluster.inside(host.name, c.argv)) for c, host in zip(commands, hosts, strict=True)]

    def machines(self, job: Job) -> list[str]:
        """Return the hosts' names."""
        return [host.name for host in job.spec.hosts]


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if result.returncode != 0:
        raise LaunchError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
    return result.stdout
