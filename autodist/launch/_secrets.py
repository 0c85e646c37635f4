"""Secrets, which must not be shown or written down: values of variables whose name says so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autodist.resource_spec import ResourceSpec

_SECRET_PARTS = (
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "KEY", "COOKIE", "BEARER"),
    "AUTHORIZATION",
)
_SECRET_ENDS = ("_AUTH", "_PASS", "_PWD", "_PAT", "_DSN")
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret.

    Example:
        >>> is_secret("HF_TOKEN"), is_secret("OMP_NUM_THREADS")
        (True, False)
    """
    upper = name.upper()
    return upper.endswith(_SECRET_ENDS) or any(part in upper for part in _SECRET_PARTS)


def mask_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with ``***`` for the values of those that are secret, and for passwords in URLs.

    Example:
        >>> mask_secrets({"RANK": "0", "AUTODIST_TOKEN": "abc", "HTTPS_PROXY": "http://me:abc@proxy:80"})
        {'RANK': '0', 'AUTODIST_TOKEN': '***', 'HTTPS_PROXY': 'http://me:***@proxy:80'}
    """
    return {name: "***" if is_secret(name) else _mask_url(value) for name, value in env.items()}


def mask_command(argv: Sequence[str]) -> list[str]:
    """Return a command line of ``autodist run`` without the values of secrets given by ``--env``.

    Only the name is left, which is a valid option as well: the value is then taken from the environment. Arguments of
    the script, which follow ``--``, are left as they are.

    Example:
        >>> mask_command(["run", "--env", "HF_TOKEN=abc", "--env=N=1", "train.py", "--", "--env=A_KEY=x"])
        ['run', '--env', 'HF_TOKEN', '--env=N=1', 'train.py', '--', '--env=A_KEY=x']
    """
    end = list(argv).index("--") if "--" in argv else len(argv)
    own = [_mask_argument(before, argument) for before, argument in zip(("", *argv), argv[:end], strict=False)]
    return [*own, *argv[end:]]


def without_secrets(spec: ResourceSpec) -> ResourceSpec:
    """Return a spec without the secret variables of its hosts and logins.

    They are left out and not masked, as a spec that was kept may be used again.
    """
    hosts = tuple(
        replace(
            host,
            env=_harmless(host.env),
            ssh=host.ssh and replace(host.ssh, shared_envs=_harmless(host.ssh.shared_envs)),
        )
        for host in spec.hosts
    )
    return replace(spec, hosts=hosts)


def _harmless(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in pairs if not is_secret(name))


def _mask_argument(before: str, argument: str) -> str:
    option = "--env=" if argument.startswith("--env=") else ""
    if not option and before != "--env":
        return argument
    name, is_assignment, value = argument.removeprefix(option).partition("=")
    if is_secret(name):
        return option + name
    return option + name + is_assignment + _mask_url(value)


def _mask_url(value: str) -> str:
    return _PASSWORD_IN_URL.sub(r"\1:***@", value)
