"""The options about what training costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec
    from autodist.search import Bill, Study, Utility

_Command = TypeVar("_Command", bound=Callable[..., Any])


def examples_option(command: _Command) -> _Command:
    """Add ``--examples``."""
    return click.option(
        "--examples",
        metavar="N",
        type=click.IntRange(1),
        help="Number of examples in an epoch, to show its cost. Default: the cost of 1000 steps.",
    )(command)


def utility_option(command: _Command) -> _Command:
    """Add ``--utility``."""
    return click.option(
        "--utility",
        default="time",
        show_default=True,
        help="What makes a strategy the best: time, or cost (by the spec's prices).",
    )(command)


def bill_for(spec: ResourceSpec, batch_size: int, examples: int | None) -> Bill:
    """Return what training costs on a cluster; says where ``--examples`` shows nothing, because prices are missing."""
    from autodist.report import show_warning
    from autodist.search import Bill

    unknown = [f"`{host.name}`" for host in spec.hosts if host.price_per_hour is None]
    if examples is not None and unknown:
        hint = "give each node a `price_per_hour` in the spec, or `defaults` one for all"
        show_warning(f"`--examples` shows no cost: there is no price for {', '.join(unknown)}", hint)
    return Bill(spec, batch_size, examples)


def bill_of(study: Study, examples: int | None) -> Bill:
    """Return what training costs on the cluster of a study."""
    from autodist.resource_spec import ResourceSpec

    return bill_for(ResourceSpec.from_json(study.spec), study.batch_size, examples)


def utility_for(name: str, study: Study) -> Utility:
    """Return the utility of this name on the cluster of a study.

    Raises:
        UsageError: There is none, or the cluster has no prices.
    """
    from autodist.resource_spec import ResourceSpec
    from autodist.search import utility_of

    return utility_of(name, ResourceSpec.from_json(study.spec))
