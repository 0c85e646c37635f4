"""From asyncssh's exceptions to errors that say what to do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import asyncssh

from autodist.errors import HostUnreachable
from autodist.remote._ssh_config import Stage
from autodist.remote._unreachable import Login

_DEFAULT_KEYS = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed25519", "id_ecdsa", "id_rsa", "id_dsa")


class HostKeyWitness(asyncssh.SSHClient):
    """Sees the key of a host that is not trusted."""

    offered: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Remember the key, without trusting it."""
        self.offered = key
        return False


def explain(
    error: Exception, login: Login, stage: Stage | None = None, witness: HostKeyWitness | None = None
) -> HostUnreachable:
    """Return what a failed login means."""
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return login.unknown_name()
    if isinstance(error, ConnectionRefusedError):
        return login.refused()
    if isinstance(error, asyncssh.PermissionDenied):
        return login.denied(_tried(stage, login) if stage is not None else ())
    if isinstance(error, (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed)) and stage is not None:
        return _explain_host_key(error, login, stage, witness)
    if isinstance(error, asyncssh.ChannelOpenError):
        return _explain_channel(error.reason, login)
    if isinstance(error, OSError) and error.errno is not None:
        return login.no_route(os.strerror(error.errno))
    if isinstance(error, ValueError) and not isinstance(error, asyncssh.Error):
        return login.config(str(error))
    return login.other(str(error))


def _explain_host_key(error: Exception, login: Login, stage: Stage, witness: HostKeyWitness | None) -> HostUnreachable:
    if "revoked" in str(error):
        return login.revoked_key()
    if isinstance(error, asyncssh.KeyExchangeFailed) and "host key" not in str(error):
        return login.other(str(error))
    key = None if witness is None else witness.offered
    offered = "" if key is None else f" ({key.get_algorithm()} {key.get_fingerprint()})"
    port = None if stage.port == 22 else stage.port
    trusted = asyncssh.match_known_hosts(stage.known_hosts, stage.known_as, "", port)[0]
    return login.changed_key(offered) if trusted else login.unknown_key(offered)


def _explain_channel(reason: str, login: Login) -> HostUnreachable:
    """Explain a jump host's words about the next one, or sshd's about one session too many."""
    if "not known" in reason or "resolve" in reason:
        return login.unknown_name()
    if "refused" in reason:
        return login.refused()
    if "timed out" in reason:
        return login.no_route(reason)
    return login.other(f"its sshd opens no channel: {reason}")


def _tried(stage: Stage, login: Login) -> list[str]:
    """As whom and by which keys a login was tried, or would have been."""
    names = stage.key_files or [
        str(path) for name in _DEFAULT_KEYS if (path := Path("~/.ssh", name).expanduser()).is_file()
    ]
    tried = [_describe(name) for name in names]
    agent = "the keys of the SSH agent" if os.environ.get("SSH_AUTH_SOCK") else "no SSH agent"
    user = [f"user `{stage.user}`"] if login.user is None else []
    return [*user, *(tried or ["no key file"]), agent]


def _describe(name: str) -> str:
    try:
        asyncssh.read_private_key(name)
    except asyncssh.KeyImportError as error:
        if "assphrase" in str(error):
            return f"`{name}` left out: it is encrypted and only an agent can use it (`ssh-add {name}`)"
        return f"`{name}` left out: {error}"
    except (OSError, ValueError) as error:
        return f"`{name}` left out: {error}"
    return f"`{name}`"
