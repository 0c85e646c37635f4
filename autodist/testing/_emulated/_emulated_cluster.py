"""Several hosts on one Linux machine: network namespaces on a switch, with links of a given rate.

Everything a host does to another one crosses its own network interface, so bandwidth is what the rate says and the
kernel counts the bytes. Nothing of this machine's own network, files or processes is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from autodist.errors import LaunchError, UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.testing._emulated._emulated_network import BURST_BYTES, HEAD, Network, address_of, gbps_of
from autodist.testing._emulated._host import EmulatedHost
from autodist.testing._emulated._keys import write_host_files, write_user_files
from autodist.testing._emulated._leftovers import Keeper, directory_of, new_name, sweep
from autodist.testing._emulated._tools import SYSTEM_PATH, find_tool, why_not_here

_USERS = {"root": (0, "/root"), "trainer": (4242, "/home/trainer")}


class EmulatedCluster:
    r"""Hosts ``h1``, ``h2``... and ``head``, from which commands are launched, while the context is open.

    Each has its own network interface, processes, host name, sshd with its own host key, and disk: this machine's, on
    which it writes for itself only, with an empty ``/tmp`` and fresh homes. The users ``root`` and ``trainer`` can log
    in from each host to each other by plain ``ssh h2``.

    When this process ends, however it does, the hosts and all that runs on them end as well.

    Args:
        num_hosts: How many besides ``head``, 1 to 200.
        rate: Rate of every host's link in each direction, as ``tc`` writes it (``"1gbit"``); None leaves links
            unshaped.
        rates: Rates of the links of single hosts, by name.
        cpus: CPU devices of each host, which all share this machine's cores.
        binds: Directories of this machine that all hosts share with it, at the same path: a shared file system.

    Raises:
        LaunchError: Hosts can't be emulated here; says what is missing.
        UsageError: A rate is invalid, is given for a host that does not exist, or a directory to share does not exist.

    Example:
        >>> with EmulatedCluster(2, "1gbit", rates={"h2": "200mbit"}) as cluster:    # doctest: +SKIP
        ...     cluster.run("head", ["ssh", "h2", "hostname"]).stdout
        ...     cluster.cut("h2")
        'h2\n'
    """

    def __init__(
        self,
        num_hosts: int,
        rate: str | None = None,
        *,
        rates: Mapping[str, str] | None = None,
        cpus: int = 1,
        binds: Sequence[str | Path] = (),
    ) -> None:
        reason = why_not_here()
        if reason is not None:
            raise LaunchError(f"hosts can't be emulated here: {reason}", hint="it works as root, on Debian and similar")
        self.num_hosts = num_hosts
        self.rate = rate
        self.cpus = cpus
        self._names = {number: f"h{number}" for number in range(1, num_hosts + 1)} | {HEAD: "head"}
        self._rates = {name: rate for number, name in self._names.items() if number != HEAD} | dict(rates or {})
        self._binds = [Path(path).absolute() for path in binds]
        self._check()
        self._name = new_name()
        self._keeper: Keeper | None = None
        self._hosts: dict[str, EmulatedHost] = {}

    def _check(self) -> None:
        if not 1 <= self.num_hosts <= 200:
            raise UsageError(f"`num_hosts` is {self.num_hosts}, it must be 1 to 200")
        unknown = sorted(set(self._rates) - set(self._names.values()))
        if unknown:
            raise UsageError(
                f"rates are given for {', '.join(unknown)}, the hosts are h1 to h{self.num_hosts} and head"
            )
        for rate in self._rates.values():
            gbps_of(rate or "1gbit")
        missing = [str(path) for path in self._binds if not path.is_dir()]
        if missing:
            raise UsageError(f"the directories to share don't exist: {', '.join(missing)}")

    @staticmethod
    def why_not_here() -> str | None:
        """Why hosts can't be emulated on this machine, for a test that is skipped then; None where they can."""
        return why_not_here()

    @property
    def spec(self) -> ResourceSpec:
        """The hosts as a cluster, without ``head``, with the bandwidth that their links have now.

        All of them compute on this machine's cores.
        """
        numbers = {name: number for number, name in self._names.items() if number != HEAD}
        return ResourceSpec(tuple(self._described(name, number) for name, number in numbers.items()))

    def _described(self, name: str, number: int) -> Host:
        host = Host(name, address_of(number), cpus=self.cpus, cores_shared_by=self.num_hosts)
        rate = self._rates.get(name)
        return host if rate is None else replace(host, bandwidth_gbps=gbps_of(rate), burst_kb=BURST_BYTES / 1e3)

    def __enter__(self) -> EmulatedCluster:
        sweep()
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
        directory = self._directory
        directory.mkdir(mode=0o700)
        self._keeper = Keeper(self._name)
        (directory / "ssh").mkdir()
        keys = {
            number: write_host_files(directory / name / "etc", number, self._names)
            for number, name in self._names.items()
        }
        write_user_files(directory / "ssh", keys, self._names)
        network = self._network
        network.build()
        for number, name in self._names.items():
            self._hosts[name] = EmulatedHost(name, number, network, directory / name, directory / "ssh", self._binds)
            self._hosts[name].boot()
            self._shape(name)
        for host in self._hosts.values():
            host.wait_until_up()

    def _shape(self, host: str) -> None:
        if self._rates.get(host) is not None:
            self.shape(host, self._rates[host])

    def close(self) -> None:
        """End all that still runs on the hosts, and remove them; does nothing the second time."""
        if self._keeper is not None:
            self._keeper.end()
        self._keeper = None
        for host in self._hosts.values():
            host.wait_until_dead()
        self._hosts.clear()

    # --- what happens to hosts

    def shape(self, host: str, rate: str | None) -> None:
        """Give a host's link another rate in each direction; None for none."""
        number = self._host(host).number
        self._rates[host] = rate
        self._network.shape(host, number, rate)

    def cut(self, host: str, other: str | None = None) -> None:
        """Cut a host off the network, or from one other host alone; it runs on, and the other end does not notice."""
        self._connect(host, other, is_up=False)

    def heal(self, host: str, other: str | None = None) -> None:
        """Connect a host again, or with the other one that it was cut from."""
        self._connect(host, other, is_up=True)

    def _connect(self, host: str, other: str | None, *, is_up: bool) -> None:
        if other is None:
            self._network.connect(self._host(host).number, is_up=is_up)
            return
        for here, there in ((host, other), (other, host)):
            self._network.part(self._host(here).name, self._host(there).number, are_parted=not is_up)

    def crash(self, host: str) -> None:
        """End a host as a power cut does: it is silent at once, and all its processes are dead."""
        self._host(host).crash()

    def restart(self, host: str) -> None:
        """Start a crashed host again, with an empty disk and the same host key."""
        self._host(host).boot()
        self._shape(host)
        self._host(host).wait_until_up()

    # --- what runs on hosts

    def command(
        self, host: str, argv: Sequence[str], *, user: str = "root", env: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """A command that runs another one on a host, in the user's home and with a login's environment.

        It forks: the process on the host is its child, and dies with it only if it is told to.

        Args:
            host: Its name, ``head`` included.
            argv: Program and arguments.
            user: ``root`` or ``trainer``.
            env: Environment variables besides a login's.
        """
        uid, home = _USERS[user]
        environ = {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        environ["PATH"] = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
        if "PYTHONPATH" in os.environ:
            environ["PYTHONPATH"] = os.environ["PYTHONPATH"]
        variables = [f"{name}={value}" for name, value in (environ | dict(env or {})).items()]
        enter = (find_tool("nsenter") or "nsenter", "--target", str(self._host(host).init), "--setuid", str(uid))
        spaces = ("--setgid", str(uid), "--mount", "--uts", "--ipc", "--net", "--pid", f"--wdns={home}")
        return (*enter, *spaces, "env", "-i", *variables, *argv)

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        given: str = "",
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end; what it returns says how it ended and what it wrote.

        Raises:
            LaunchError: It took too long; it may still run on the host.
        """
        command = self.command(host, argv, user=user, env=env)
        try:
            return subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=timeout_s, check=False, cwd="/"
            )
        except subprocess.TimeoutExpired as error:
            raise LaunchError(f"`{' '.join(argv)}` on {host} took longer than {timeout_s:g} s") from error

    def processes(self, host: str) -> dict[int, str]:
        """Command lines of what runs on a host, by process id of this machine; without sshd's own.

        A host that has crashed has none.
        """
        emulated = self._host(host)
        return emulated.processes() if emulated.is_up else {}

    def disk(self, host: str) -> Path:
        """A host's root directory as this machine sees it, to put files there and to look at them.

        Absolute links on it lead to this machine's files.
        """
        return Path(f"/proc/{self._host(host).init}/root")

    def sent_bytes(self) -> tuple[int, ...]:
        """Bytes that each host has sent to others so far, all headers included; ``head`` is left out."""
        return tuple(self._network.sent_bytes(name) for number, name in self._names.items() if number != HEAD)

    @property
    def _directory(self) -> Path:
        return directory_of(self._name)

    @property
    def _network(self) -> Network:
        return Network(self._name)

    def _host(self, name: str) -> EmulatedHost:
        if name not in self._hosts:
            known = ", ".join(self._hosts) or "none: the cluster is not open"
            raise UsageError(f"no emulated host `{name}`, there are {known}")
        return self._hosts[name]
