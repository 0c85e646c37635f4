"""A resource spec as JSON: what a run's workers get."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import Host, Link, Ssh

SCHEMA_VERSION = 1

_NOT_A_SPEC = "expected what `ResourceSpec.to_json()` writes"
_LATER = {"price_per_hour": None, "cores_shared_by": 1, "burst_kb": 0.0}
"""Keys that were added to hosts later, and their defaults."""

_Spec = TypeVar("_Spec")


def dump(hosts: Iterable[Host], links: Iterable[Link]) -> str:
    """Return one line of JSON of a spec, with the schema version."""
    content = {"hosts": [asdict(host) for host in hosts], "links": [asdict(link) for link in links]}
    for host in content["hosts"]:  # stores find a cluster by its text, which did not have these once
        for name, unsaid in _LATER.items():
            if host[name] == unsaid:
                del host[name]
    return json.dumps({"schema_version": SCHEMA_VERSION, **content}, allow_nan=False)


def load(text: str, make: Callable[[tuple[Host, ...], tuple[Link, ...]], _Spec]) -> _Spec:
    """Return the spec of a JSON text, as `make` makes it of hosts and links.

    Raises:
        SpecError: Not JSON, another schema version, or not a spec.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the resource spec is not JSON ({error}), {_NOT_A_SPEC}") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"the resource spec has the schema version {version!r}, this AutoDist reads {SCHEMA_VERSION}")
    try:
        return make(tuple(map(_host, data["hosts"])), tuple(Link(**link) for link in data["links"]))
    except SpecError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise SpecError(f"the resource spec's JSON is damaged ({error!r}), {_NOT_A_SPEC}") from None


def _host(data: dict[str, Any]) -> Host:
    if not isinstance(data["name"], str) or not isinstance(data["address"], str):
        raise TypeError("the name and the address of a host are texts")
    ssh = data["ssh"] and Ssh(**{**data["ssh"], "shared_envs": _pairs(data["ssh"]["shared_envs"])})
    return Host(**{**data, "gpus": tuple(data["gpus"]), "env": _pairs(data["env"]), "ssh": ssh})


def _pairs(data: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in data)
