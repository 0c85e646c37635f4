"""Why a login fails, in words that say how to repair it; the same for every way to log in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autodist.errors import HostUnreachable
from autodist.remote._base import Machine
from autodist.resource_spec import Ssh


def config_file() -> str | None:
    """The configuration of SSH that is to be read instead of the usual ones, if there is one."""
    return os.environ.get("AUTODIST_SSH_CONFIG") or None


@dataclass(frozen=True)
class Login:
    """An attempt to log in, for messages about it.

    Attributes:
        address: The machine that is to be reached.
        host: The machine that is logged in to: the machine, or a host on the way to it.
        user: Login name, where one is given.
        port: Port of sshd, where one is given.

    Example:
        >>> Login("h2", "h2", "me", 2222).by_hand
        'ssh -p 2222 me@h2'
    """

    address: str
    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def to(cls, machine: Machine) -> Login:
        """Return the login to a machine.

        Raises:
            HostUnreachable: Its key file does not exist.
        """
        ssh = machine.ssh or Ssh()
        login = cls(machine.address, machine.address, ssh.username, ssh.port)
        if ssh.key_file is not None and not Path(ssh.key_file).expanduser().is_file():
            raise login.missing_key(str(Path(ssh.key_file).expanduser()))
        return login

    def through(self, host: str, user: str | None, port: int | None) -> Login:
        """Return the login to a host on the way."""
        return replace(self, host=host, user=user, port=port)

    @property
    def by_hand(self) -> str:
        """The command that does the same at a terminal."""
        config = config_file()
        options = ([] if config is None else ["-F", config]) + ([] if self.port is None else ["-p", str(self.port)])
        return shlex.join(["ssh", *options, self.host if self.user is None else f"{self.user}@{self.host}"])

    def unknown_key(self, offered: str = "") -> HostUnreachable:
        """Nothing is known of the host's key."""
        port = "" if self.port is None else f"-p {self.port} "
        return self._error(
            f"the host key{offered} is not known here",
            f"log in once by `{self.by_hand}` and compare the fingerprint that it shows; on a network that you trust, "
            f"`ssh-keyscan -H {port}{shlex.quote(self.host)} >> ~/.ssh/known_hosts` does for many hosts. Host keys are "
            "always checked, whatever `StrictHostKeyChecking` says",
        )

    def changed_key(self, offered: str = "") -> HostUnreachable:
        """Another key of the host is known."""
        name = self.host if self.port is None else f"[{self.host}]:{self.port}"
        return self._error(
            f"the host key{offered} is not the one that is known here: the machine was set up again, or somebody else "
            "answers in its place",
            f"if you know why it has changed, forget the old one by `ssh-keygen -R {shlex.quote(name)}` and log in "
            f"once by `{self.by_hand}`. Host keys are always checked, whatever `StrictHostKeyChecking` says",
        )

    def revoked_key(self) -> HostUnreachable:
        """The host's key is marked as revoked."""
        return self._error("the host key is marked `@revoked` here", "ask who runs the machine for its new key")

    def denied(self, tried: Sequence[str] = ()) -> HostUnreachable:
        """No key was accepted."""
        with_keys = f", with {', '.join(tried)}" if tried else ""
        return self._error(
            f"the login was refused{with_keys}",
            f"`{self.by_hand}` has to work without a password: add a key by `ssh-copy-id` or `ssh-add`, or name user "
            "and key in `~/.ssh/config` or in the `ssh:` group of the resource spec; `--transport ssh` logs in by the "
            "system's `ssh`, with all that it can do (Kerberos, security keys, ControlMaster)",
        )

    def missing_key(self, path: str) -> HostUnreachable:
        """The key file of the resource spec is not there."""
        return self._error(
            f"the key file `{path}` does not exist on this machine",
            "correct `key_file` in the `ssh:` group of the spec",
        )

    def unknown_name(self) -> HostUnreachable:
        """The name has no address."""
        return self._error(
            "the name is not known", "check its spelling; or give it a `HostName` in `~/.ssh/config`, or an IP address"
        )

    def refused(self) -> HostUnreachable:
        """Nothing listens there."""
        port = 22 if self.port is None else self.port
        return self._error(
            "the connection was refused: the machine is there, but no sshd listens",
            f"start its sshd; or if it has another port than {port}, say so in `~/.ssh/config` or the `ssh:` group",
        )

    def no_route(self, reason: str) -> HostUnreachable:
        """The network does not lead there."""
        return self._error(f"the network does not lead there ({reason})", f"see what `{self.by_hand}` says")

    def silent(self, timeout_s: float) -> HostUnreachable:
        """Nothing was heard in time."""
        return self._error(
            f"no login within {timeout_s:g} s",
            f"is it up, and does a firewall let you through? See what `{self.by_hand}` says",
        )

    def config(self, reason: str) -> HostUnreachable:
        """OpenSSH's configuration can't be read or obeyed."""
        return self._error(
            f"the configuration of SSH can't be used: {reason}",
            "correct it, name another file in `AUTODIST_SSH_CONFIG`, or let the system's `ssh` read it: "
            "`--transport ssh`",
        )

    def other(self, reason: str) -> HostUnreachable:
        """Something else went wrong."""
        return self._error(
            reason or "the connection broke", f"see what `{self.by_hand}` says, or try `--transport ssh`"
        )

    def _error(self, reason: str, hint: str) -> HostUnreachable:
        way = "" if self.host == self.address else f" through `{self.host}`"
        user = "" if self.user is None else f" as `{self.user}`"
        message = f"can't log in to `{self.address}`{way}{user}: {reason}"
        return HostUnreachable(message, hint=hint, address=self.address)
