"""Finds builders by name: our own and those that other packages bring through entry points."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autodist.errors import StrategyError
from autodist.registry import Registered, Registry, instantiate, split_call
from autodist.strategies._builders import BUILDERS, Manual, StrategyBuilder
from autodist.strategies._retargeted import Retargeted, RetargetedWarning, idle_devices, is_of_another_cluster
from autodist.strategies._strategy import Strategy
from autodist.strategies.checks import check
from autodist.strategies.synchronizers import synchronizers

if TYPE_CHECKING:
    from collections.abc import Collection

    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

ENTRY_POINT_GROUP = "autodist.strategies"

BuilderInfo: TypeAlias = Registered

StrategyLike: TypeAlias = "str | os.PathLike[str] | StrategyBuilder | Strategy"
"""The kinds of values that :func:`get` takes wherever a strategy is wanted."""


_MISPLACED = re.compile(r"(?:is '|\.)(\w+)(?:', allowed: an object|` is unknown)")
"""Names in messages about files that stand where something else is allowed."""

_REGISTRY: Registry[StrategyBuilder] = Registry("strategy builder", StrategyBuilder, ENTRY_POINT_GROUP, BUILDERS)


def get(what: StrategyLike) -> StrategyBuilder | Strategy:
    """Find the builder or the strategy that is meant.

    Args:
        what: A builder's name, ``"PSLoadBalancing"``, in any case, or with arguments,
            ``"AllReduce(chunk_size=64)"``; the path of a strategy's JSON file (it ends in ``.json`` or has a directory)
            or of a plan (``.yml``, ``.yaml``); or a builder or a strategy, which is returned as it is.

    Example:
        >>> get("AllReduce(chunk_size=64)").chunk_size
        64

    Raises:
        StrategyError: For an unknown name (lists the known ones), wrong arguments (lists all) or an unreadable file.
    """
    if isinstance(what, StrategyBuilder | Strategy):
        return what
    if not isinstance(what, str | os.PathLike):
        raise StrategyError(f"the strategy is {what!r}, allowed: a name, a file, a StrategyBuilder or a Strategy")
    text = os.fspath(what)
    name, arguments = split_call(text)
    builder = _REGISTRY.find(_REGISTRY.spelled(name)) if isinstance(what, str) else None
    if builder is not None:
        return _readable(instantiate(builder, arguments))
    try:
        if text.endswith((".yml", ".yaml")):
            return _readable(Manual(text))
        if isinstance(what, os.PathLike) or text.endswith(".json") or os.sep in text:
            return Strategy.load(text)
    except StrategyError as error:
        raise _with_builder_hint(error) from error
    raise _unknown(name, text)


def _with_builder_hint(error: StrategyError) -> StrategyError:
    """A mistake of a file; if a builder is named where a synchronizer should be, its hint says what goes there."""
    misplaced = (name for name in _MISPLACED.findall(error.message) if name not in synchronizers())
    given = next(filter(names_builder, misplaced), None)
    if given is None or error.hint is not None:
        return error
    name = _REGISTRY.spelled(given)
    hint = (
        f"`{name}` is a builder, which decides about all variables: `--strategy {name}`; a file says what each "
        "variable has: a synchronizer (`PS` or `AllReduce`, in a plan `ps` or `all_reduce`), and a `partition` if it "
        "has parts; `strategy.json` in the directory of a run shows what a builder has decided"
    )
    return StrategyError(error.message, hint=hint)


def names_builder(text: str) -> bool:
    """Whether a text is the name of a builder, perhaps with arguments.

    Example:
        >>> names_builder("allreduce(chunk_size=64)"), names_builder("strategy.json")
        (True, False)
    """
    return _REGISTRY.find(_REGISTRY.spelled(split_call(text)[0])) is not None


def _readable(builder: StrategyBuilder) -> StrategyBuilder:
    """The builder; a plan file is read, so that its mistakes are reported before a model is built."""
    if isinstance(builder, Manual):
        builder.read()
    return builder


def compose(
    what: StrategyLike,
    graph: TrainingGraph,
    spec: ResourceSpec,
    *,
    available_communicators: Collection[str] | None = None,
) -> Strategy:
    """Make a checked strategy: :func:`get` it, build it if need be, :func:`check` it.

    A file for another cluster is fitted to this one, and a :class:`RetargetedWarning` says so.

    Raises:
        StrategyError: For the reasons of :func:`get` and :func:`check`.
    """
    found = fitting(what, spec)
    strategy = found if isinstance(found, Strategy) else found.build(graph, spec)
    check(strategy, graph, spec, available_communicators=available_communicators)
    return strategy


def fitting(what: StrategyLike, spec: ResourceSpec, path: str | None = None) -> StrategyBuilder | Strategy:
    """The result of :func:`get`; for a file for another cluster, a builder that fits it to this one.

    Args:
        what: What :func:`get` takes.
        spec: The cluster.
        path: The file that a strategy was read from, if it was read already.

    Raises:
        StrategyError: For the reasons of :func:`get`.
    """
    found = get(what)
    file = str(what) if isinstance(what, str | os.PathLike) else path
    if not isinstance(found, Strategy) or file is None:
        return found
    if is_of_another_cluster(found, spec):
        return Retargeted(found, file)
    idle = idle_devices(found, spec)
    if idle:
        warnings.warn(f"the strategy `{file}` was made for fewer devices: {idle}", RetargetedWarning, stacklevel=3)
    return found


def builders() -> tuple[BuilderInfo, ...]:
    """All builders in alphabetical order; those of other packages that can't be loaded give a PluginWarning.

    Raises:
        StrategyError: If two packages bring builders of one name.
    """
    return _REGISTRY.registered()


def _unknown(name: str, text: str) -> StrategyError:
    near, lines = _REGISTRY.near(name)
    file = f"; to use the file of this name write `.{os.sep}{text}`" if Path(text).is_file() else ""
    return StrategyError(
        "\n".join([f"the strategy `{name}` is unknown{near}{file}", "known are", *lines]),
        hint="a strategy is one of these names, or the path of a strategy's JSON file or of a plan (YAML)",
    )
