"""Keys and configurations of SSH on emulated hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from autodist.testing._emulated._emulated_network import address_of
from autodist.testing._emulated._tools import run_tool

# As Debian ships it, without PAM, whose logins need more of a machine than these have.
_SSHD = """HostKey /etc/ssh/ssh_host_ed25519_key
PidFile none
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv LANG LC_*
MaxStartups 100
Subsystem sftp internal-sftp
"""


def write_user_files(directory: Path, host_keys: Mapping[int, str], names: Mapping[int, str]) -> None:
    """Write the ``~/.ssh`` of all users of all hosts: the same key logs in everywhere."""
    key = directory / "id_ed25519"
    _generate(key)
    (directory / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (directory / "config").write_text("# The hosts are in /etc/hosts, their keys in known_hosts.\n")
    lines = [f"{names[number]},{address_of(number)} {host_key}\n" for number, host_key in host_keys.items()]
    (directory / "known_hosts").write_text("".join(lines))


def write_host_files(directory: Path, number: int, names: Mapping[int, str]) -> str:
    """Write what a host has in its ``/etc``; returns its public key."""
    (directory / "ssh").mkdir(parents=True)
    hosts = "".join(f"{address_of(other)} {name}\n" for other, name in names.items())
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{hosts}")
    (directory / "hostname").write_text(f"{names[number]}\n")
    # What is not in /etc/hosts does not exist; no name server is asked.
    (directory / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    (directory / "ssh" / "sshd_config").write_text(_SSHD + _environment())
    key = directory / "ssh" / "ssh_host_ed25519_key"
    _generate(key)
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def _environment() -> str:
    """Logins see the same AutoDist as this process does."""
    path = os.environ.get("PYTHONPATH")
    return f'SetEnv "PYTHONPATH={path}"\n' if path else ""


def _generate(path: Path) -> None:
    run_tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path))
