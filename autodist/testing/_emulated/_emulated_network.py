"""Network namespaces on one switch, with links of a given rate."""

from __future__ import annotations

import json
import re

from autodist.errors import UsageError
from autodist.testing._emulated._tools import run_tool

HEAD = 254
"""The number of the host from which commands are launched."""

INTERFACE = "eth0"

BURST_BYTES = 256 << 10
"""The bytes that a link passes at once after a rest."""

_SUBNET = "10.77.0"
_NOBODY = "02:77:00:00:00:ff"  # no host has this address, so the switch's frames to it reach no process
_BURST = f"{BURST_BYTES}b"  # at least one 64 KiB frame of segmentation offload; 32k cost 30 % of a core
_LATENCY = "20ms"
_POWERS = {"": 0, "k": 3, "m": 6, "g": 9, "t": 12}


def address_of(number: int) -> str:
    """The IP address of a host.

    Example:
        >>> address_of(1)
        '10.77.0.1'
    """
    return f"{_SUBNET}.{number}"


def gbps_of(rate: str) -> float:
    """The bandwidth that a rate of ``tc`` means, in Gbit/s; its ``bps`` are bytes per second.

    Raises:
        UsageError: It is not a rate.

    Example:
        >>> gbps_of("250mbit")
        0.25
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)(i?)(bit|bps|)", rate.strip().lower())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"`{rate}` is not a rate, write it like `1gbit` or `250mbit`")
    base: float = 1024 ** (_POWERS[found[2]] // 3) if found[3] else 10 ** _POWERS[found[2]]
    return float(found[1]) * base * (8 if found[4] == "bps" else 1) / 1e9


class Network:
    """The switch of a cluster, in a namespace of its own: nothing of this machine's network is touched.

    Args:
        name: The cluster's, with which the names of all namespaces begin.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._switch = f"{name}-sw"

    def namespace(self, host: str) -> str:
        """The name of a host's network namespace."""
        return f"{self._name}-{host}"

    def build(self) -> None:
        """Make the switch."""
        self._add(self._switch)
        self._ip(self._switch, "link add br0 type bridge stp_state 0 forward_delay 0", "link set br0 up")

    def plug(self, host: str, number: int) -> None:
        """Make a host's namespace and connect it to the switch."""
        inner = self.namespace(host)
        self._add(inner)
        mac = f"02:77:00:00:00:{number:02x}"  # the same after a restart, so neighbours' ARP entries stay right
        run_tool(
            *f"ip link add {INTERFACE} netns {inner} address {mac} type veth".split(),
            *f"peer name p{number} netns {self._switch}".split(),
        )
        self._ip(self._switch, f"link set p{number} master br0 up")
        self._ip(inner, f"addr add {address_of(number)}/24 dev {INTERFACE}", f"link set {INTERFACE} up")

    def unplug(self, number: int) -> None:
        """Remove a host's link."""
        self._ip(self._switch, f"link del p{number}")

    def forget(self, host: str) -> None:
        """Remove a host's namespace, and with it what its kernel knows of connections."""
        run_tool("ip", "netns", "del", self.namespace(host))

    def shape(self, host: str, number: int, rate: str | None) -> None:
        """Give a host's link a rate in each direction, or none."""
        for namespace, device in ((self.namespace(host), INTERFACE), (self._switch, f"p{number}")):
            command = ("ip", "netns", "exec", namespace, "tc", "qdisc")
            if rate is not None:
                shape = ("root", "tbf", "rate", rate, "burst", _BURST, "latency", _LATENCY)
                run_tool(*command, "replace", "dev", device, *shape)
            elif '"tbf"' in run_tool("ip", "netns", "exec", namespace, "tc", "-j", "qdisc", "show", "dev", device):
                run_tool(*command, "del", "dev", device, "root")

    def connect(self, number: int, *, is_up: bool) -> None:
        """Connect or cut a host's link."""
        self._ip(self._switch, f"link set p{number} {'up' if is_up else 'down'}")

    def part(self, host: str, other: int, *, are_parted: bool) -> None:
        """Have what a host sends to another one get lost on the way, or no more; all others still hear both."""
        nobody = f"lladdr {_NOBODY} nud permanent" if are_parted else ""
        action = "replace" if are_parted else "del"
        self._ip(self.namespace(host), f"neigh {action} {address_of(other)} {nobody} dev {INTERFACE}")

    def pids(self, host: str) -> list[int]:
        """All processes in a host's namespace."""
        return [int(pid) for pid in run_tool("ip", "netns", "pids", self.namespace(host)).split()]

    def sent_bytes(self, host: str) -> int:
        """Bytes that a host has sent, all headers included."""
        shown = run_tool("ip", "-json", "-statistics", "-netns", self.namespace(host), "link", "show", INTERFACE)
        return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])

    def _add(self, namespace: str) -> None:
        run_tool("ip", "netns", "add", namespace)
        self._ip(namespace, "link set lo up")

    def _ip(self, namespace: str, *lines: str) -> None:
        run_tool("ip", "-netns", namespace, "-batch", "-", given="\n".join(lines) + "\n")
