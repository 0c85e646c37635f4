"""The system's own tools that make hosts."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from autodist.errors import LaunchError

_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the system's programs are, the administrator's included."""

_TIMEOUT_S = 30.0

# In namespaces that are gone afterwards with all that is mounted and linked here.
_TRIAL = """
PATH=$PATH:/usr/sbin:/sbin
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work /tmp/root
ip link add type veth
ip link add br0 type bridge
"""


def why_not_here() -> str | None:
    """Why hosts can't be emulated on this machine, in one sentence; None where they can.

    Example:
        >>> reason = why_not_here()
    """
    if os.geteuid() != 0:
        return "it needs root"
    packages = sorted({package for tool, package in _PACKAGES.items() if find_tool(tool) is None})
    if packages:
        return f"it needs {', '.join(packages)}: apt-get install {' '.join(packages)}"
    return _refusal()


@functools.lru_cache(maxsize=1)
def _refusal() -> str | None:
    """The kernel's refusal of the kinds of things that hosts need; root of a container may lack the right."""
    try:
        run_tool("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "/bin/sh", "-euc", _TRIAL)
    except LaunchError as error:
        return f"the kernel refuses it: {error.message.rpartition('` failed: ')[2]}"
    return None


def find_tool(name: str) -> str | None:
    """The path of a tool; those of the system's administrator are found by everyone."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}")


def run_tool(*command: str, given: str = "") -> str:
    """Run a command, and return its output.

    Raises:
        LaunchError: It failed or hung; with what it said.
    """
    told = f"`{' '.join(command)}`"
    try:
        result = subprocess.run(
            [find_tool(command[0]) or command[0], *command[1:]],
            input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{told} took longer than {_TIMEOUT_S:g} s") from error
    if result.returncode != 0:
        raise LaunchError(f"{told} failed: {result.stderr.strip()}")
    return result.stdout
