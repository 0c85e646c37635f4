"""The keys of a resource spec file, their types and limits; each ``description`` says what is allowed."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from autodist.documents import Path
from autodist.resource_spec._ranges import MAX_HOSTS, expand_host_range
from autodist.resource_spec._value_checks import is_address

_MOST_DEVICES = 1024

_SECRET = re.compile(r"passw|passphrase|secret|token|private_?key|^pass$", re.IGNORECASE)
_TEXT_KEYS = {"address", "between", "directory", "key_file", "python", "python_venv", "ssh_config", "username"}

SYNONYMS = {
    "bandwidth": "bandwidth_gbps", "cost_per_hour": "price_per_hour", "cpu": "cpus", "env_vars": "env", "envs": "env",
    "gpu": "gpus", "host": "address", "cwd": "directory", "hostname": "address", "hosts": "nodes",
    "identity_file": "key_file", "interpreter": "python", "ip": "address", "key": "key_file", "latency": "latency_ms",
    "memory": "memory_gb", "name": "address", "network_gbps": "bandwidth_gbps", "num_workers": "workers",
    "price": "price_per_hour", "ram": "memory_gb", "slots": "workers", "user": "username", "venv": "python_venv",
    "workdir": "directory", "working_directory": "directory",
}  # fmt: skip
"""Other tools' names for our keys."""


def is_secret(key: str) -> bool:
    """Return whether a key asks for a secret, which has no place in the file."""
    return _SECRET.search(key) is not None


def is_verbatim(path: Path) -> bool:
    """Return whether the path is that of an environment variable, whose value is taken as it is written.

    Example:
        >>> is_verbatim(("defaults", "env", "OMP_NUM_THREADS"))
        True
    """
    match path:
        case ("nodes", int(), "env", str()) | ("defaults", "env", str()) | ("ssh", str(), "shared_envs", str()):
            return True
    return False


def is_text(path: Path) -> bool:
    """Return whether a value is a text even where YAML sees a number, as in the address ``1:2:3:4:5:6:7:8``."""
    match path:
        case (*_, "between", int()):
            return True
        case (*_, str(key)):
            return key in _TEXT_KEYS
    return False


def _one(value: object) -> object:
    if type(value) is not int or value != 1:
        raise ValueError
    return value


def _count(value: object) -> object:
    return len(_distinct(value)) if isinstance(value, list) else value


def _ids(value: object) -> object:
    if type(value) is int and 0 <= value <= _MOST_DEVICES:
        return tuple(range(value))
    if not isinstance(value, list):
        raise ValueError
    return tuple(_distinct(value))


def _distinct(ids: list[Any]) -> list[Any]:
    if any(type(item) is not int or not 0 <= item < _MOST_DEVICES for item in ids) or len(set(ids)) != len(ids):
        raise ValueError
    return ids


def _pair(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError
    return tuple(value)


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError
    return value


def _range(value: str) -> str:
    expand_host_range(value)
    return value


def _addresses(value: str) -> str:
    if "@" in value:
        raise ValueError("the user name goes to `username` of a group in `ssh`")
    if re.search(r"\[[0-9a-fA-F]*:", value):
        raise ValueError("an IPv6 address is written without brackets")
    if re.fullmatch(r"[^:]+:[0-9]+", value):
        raise ValueError("the port goes to `port` of a group in `ssh`")
    for address in expand_host_range(value):
        if not is_address(address):
            raise ValueError
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    if any(not name or "=" in name or "\0" in name + text for name, text in value.items()):
        raise ValueError
    return value


Text: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
TextOrEmpty: TypeAlias = Annotated[str, AfterValidator(_printable)]
Range: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_printable), AfterValidator(_range)]
Gbps: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, description="a number of Gbit/s above 0")]
Environment: TypeAlias = Annotated[dict[str, str], AfterValidator(_environment)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Defaults(_Section):
    """Keys of ``defaults`` and of each node."""

    workers: int = Field(1, ge=1, le=MAX_HOSTS, description=f"a number of worker processes from 1 to {MAX_HOSTS}")
    cpus: Annotated[int, BeforeValidator(_count)] = Field(
        1,
        ge=1,
        le=_MOST_DEVICES,
        description=f"a number of CPU devices from 1 to {_MOST_DEVICES}, or a list of their ids",
    )
    gpus: Annotated[tuple[int, ...], BeforeValidator(_ids)] = Field(
        (), description="a number of GPUs, or a list of different CUDA ids such as [0, 1]"
    )
    ssh_config: Text | None = Field(None, description="the name of a group in `ssh`")
    bandwidth_gbps: Gbps = 1.0
    network_bandwidth: Gbps = 1.0
    memory_gb: float | None = Field(None, gt=0, allow_inf_nan=False, description="a number of GB (10^9 bytes) above 0")
    price_per_hour: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="a number from 0, in any currency"
    )
    cores_shared_by: int = Field(1, ge=1, le=_MOST_DEVICES, description="a number of workers, from 1")
    burst_kb: float = Field(0.0, ge=0, allow_inf_nan=False, description="a number of KB (10^3 bytes) from 0")
    python: Text | None = Field(None, description="the path of a Python interpreter")
    directory: Text | None = Field(None, description="the path of a directory on the host")
    env: Environment = Field({}, description="a mapping of environment variables to texts")

    def over(self, defaults: Defaults) -> dict[str, Any]:
        """Return all settings: this section's, and from the defaults those it doesn't have; ``env`` is merged."""
        own, others = self._given(), defaults._given()
        env = {**others.get("env", {}), **own.get("env", {})}
        return {**self.model_dump(), **others, **own, "env": env}

    def _given(self) -> dict[str, Any]:
        given = self.model_dump(include=self.model_fields_set)
        if "network_bandwidth" in given:
            given["bandwidth_gbps"] = given.pop("network_bandwidth")
        return given


class Node(Defaults):
    """One element of ``nodes``."""

    address: Annotated[Text, AfterValidator(_addresses)] = Field(
        description="a host name, an IP address, or a range such as `worker[1-4]`"
    )
    chief: bool = Field(False, description="true or false")


class SshGroup(_Section):
    """One entry of ``ssh``; the original's defaults were empty texts, so these mean "not given"."""

    username: TextOrEmpty = Field("", description="a login name")
    port: int | None = Field(None, ge=1, le=65535, description="a port number from 1 to 65535")
    key_file: TextOrEmpty = Field("", description="the path of a private key on this machine")
    python_venv: TextOrEmpty = Field("", description="the shell command that activates a virtual environment")
    shared_envs: Environment = Field({}, description="a mapping of environment variables to texts")


class LinkSection(_Section):
    """One element of ``links``."""

    between: Annotated[tuple[Range, Range], BeforeValidator(_pair)] = Field(
        description="a list of two different hosts, or ranges of hosts in quotes"
    )
    bandwidth_gbps: Gbps | None = None
    latency_ms: float | None = Field(None, ge=0, allow_inf_nan=False, description="a number of milliseconds from 0")


class File(_Section):
    """The document; the parser reads its sections one by one, so that a mistake in one does not hide the others."""

    version: Annotated[int, BeforeValidator(_one)] = Field(1, description="1, the only version of this format")
    nodes: list[Any] = Field(min_length=1, description="a list of at least one node")
    ssh: dict[str, Any] = Field({}, description="a mapping of group names to SSH settings")
    defaults: dict[str, Any] = Field({}, description="a mapping with the keys of a node, except `address` and `chief`")
    links: list[Any] = Field([], description="a list of links")


ALLOWED: dict[str, str] = {
    key: field.description or "a number of Gbit/s above 0"
    for section in (File, Defaults, Node, SshGroup, LinkSection)
    for key, field in section.model_fields.items()
}
"""The values that each key allows, in words."""
