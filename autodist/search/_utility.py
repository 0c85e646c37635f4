"""Measures by which one strategy is better than another: time, or cost."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from autodist.errors import UsageError
from autodist.resource_spec import ResourceSpec
from autodist.strategies import Strategy, host_of

_HOUR_S = 3600.0
_STEPS = 1000


class Utility(abc.ABC):
    """The quantity that a search minimizes."""

    name: ClassVar[str]
    """Its name for users."""

    @abc.abstractmethod
    def of(self, strategy: Strategy, step_s: float) -> float:
        """The value of a strategy, given the seconds of its step: the smaller, the better."""


@final
@dataclass(frozen=True)
class Time(Utility):
    """Seconds of a step."""

    name: ClassVar[str] = "time"

    def of(self, strategy: Strategy, step_s: float) -> float:
        """The seconds themselves."""
        return step_s


@final
@dataclass(frozen=True)
class Cost(Utility):
    """The price of a step, of all hosts that hold replicas or serve.

    Attributes:
        spec: The cluster with its prices.

    Raises:
        UsageError: Hosts have none; all of them are listed.

    Example:
        >>> from autodist.resource_spec import Host
        >>> from autodist.strategies import GraphConfig
        >>> spec = ResourceSpec((Host("a", "a", price_per_hour=2), Host("b", "b", price_per_hour=7)))
        >>> Cost(spec).of(Strategy(GraphConfig(("a:CPU:0",), "tcp"), ()), step_s=1800)
        1.0
    """

    name: ClassVar[str] = "cost"
    spec: ResourceSpec

    def __post_init__(self) -> None:
        unknown = [f"`{host.name}`" for host in self.spec.hosts if host.price_per_hour is None]
        if unknown:
            raise UsageError(
                f"what a strategy costs is not known: there is no price for {', '.join(unknown)}",
                hint="give each node a `price_per_hour` in the spec, or `defaults` one for all",
            )

    def of(self, strategy: Strategy, step_s: float) -> float:
        """The price of one step, in the currency of the spec."""
        prices = {host.name: host.price_per_hour or 0.0 for host in self.spec.hosts}
        return sum(prices.get(host, 0.0) for host in hosts_of(strategy)) * step_s / _HOUR_S


UTILITIES: Mapping[str, Callable[[ResourceSpec], Utility]] = {Time.name: lambda spec: Time(), Cost.name: Cost}
"""By name, a function that makes the utility for a cluster."""


def utility_of(name: str, spec: ResourceSpec) -> Utility:
    """The utility of this name for a cluster.

    Raises:
        UsageError: There is none, or the cluster has no prices.
    """
    if name not in UTILITIES:
        raise UsageError(f"there is no utility `{name}`, allowed: {', '.join(UTILITIES)}")
    return UTILITIES[name](spec)


def hosts_of(strategy: Strategy) -> tuple[str, ...]:
    """Names of the hosts that a strategy uses: they hold replicas, or serve; in alphabetical order."""
    servers = {device for _, synchronizer in strategy.synchronizers for device in synchronizer.devices}
    return tuple(sorted({host_of(device) for device in (*strategy.graph.replicas, *servers)}))


@dataclass(frozen=True)
class Bill:
    """The bill of a training where every host has a price.

    Attributes:
        spec: The cluster with its prices.
        batch_size: Examples in the global batch.
        examples: Examples of an epoch; None if that is not known.

    Example:
        >>> from autodist.resource_spec import Host
        >>> from autodist.strategies import GraphConfig
        >>> bill = Bill(ResourceSpec((Host("a", "a", price_per_hour=2),)), batch_size=100, examples=850)
        >>> bill.unit, bill.of(Strategy(GraphConfig(("a:CPU:0",), "tcp"), ()), step_s=200.0)  # 9 steps
        ('epoch', 1.0)
    """

    spec: ResourceSpec
    batch_size: int
    examples: int | None = None

    @property
    def unit(self) -> str:
        """The unit that is paid for: an epoch, or 1,000 steps."""
        return f"{_STEPS:,} steps" if self.examples is None else "epoch"

    @property
    def key(self) -> str:
        """The same as part of a name."""
        return f"{_STEPS}_steps" if self.examples is None else "epoch"

    def of(self, strategy: Strategy, step_s: float | None) -> float | None:
        """The price, in the currency of the spec; None where a price or the time is not known."""
        if step_s is None or any(host.price_per_hour is None for host in self.spec.hosts):
            return None
        steps = _STEPS if self.examples is None else math.ceil(self.examples / self.batch_size)
        return steps * Cost(self.spec).of(strategy, step_s)
