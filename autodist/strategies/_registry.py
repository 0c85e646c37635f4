"""Finds builders by name: our own and those that other packages bring through entry points."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from autodist.errors import StrategyError
from autodist.strategies._builders import BUILDERS, StrategyBuilder
from autodist.strategies._parse import instantiate, parameters, split_call
from autodist.strategies._strategy import Strategy
from autodist.strategies._typed import suggestion
from autodist.strategies._verify import check

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

__all__ = ["ENTRY_POINT_GROUP", "BuilderInfo", "PluginWarning", "builders", "compose", "get"]

ENTRY_POINT_GROUP = "autodist.strategies"

_Loader: TypeAlias = Callable[[], type[StrategyBuilder]]


class PluginWarning(UserWarning):
    """A strategy builder of another package can't be used."""


@dataclass(frozen=True)
class BuilderInfo:
    """What there is to know about a builder.

    Attributes:
        name: What users call it.
        summary: One line.
        parameters: Its parameters with their defaults.

    """

    name: str
    summary: str
    parameters: Mapping[str, Any]


def _own(builder: type[StrategyBuilder]) -> _Loader:
    return lambda: builder


_OWN: dict[str, _Loader] = {builder.name: _own(builder) for builder in BUILDERS}


def get(what: str | os.PathLike[str] | StrategyBuilder | Strategy) -> StrategyBuilder | Strategy:
    """Find the builder or the strategy that is meant.

    Args:
        what: A builder's name, ``"PSLoadBalancing"``; with arguments, ``"AllReduce(chunk_size=64)"``; the path of a
            strategy's JSON file (it ends in ``.json`` or has a directory); or a builder or a strategy, which is
            returned as it is.

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
    loaders = _loaders()
    if name in loaders and isinstance(what, str):
        return instantiate(_loaded(name, loaders[name]), arguments)
    if isinstance(what, os.PathLike) or text.endswith(".json") or os.sep in text:
        return Strategy.load(text)
    raise _unknown(name, text)


def compose(
    what: str | os.PathLike[str] | StrategyBuilder | Strategy,
    graph: TrainingGraph,
    spec: ResourceSpec,
    *,
    available_communicators: Collection[str] | None = None,
) -> Strategy:
    """Make a checked strategy: :func:`get` it, build it if need be, :func:`check` it.

    Raises:
        StrategyError: For the reasons of :func:`get` and :func:`check`.

    """
    found = get(what)
    strategy = found if isinstance(found, Strategy) else found.build(graph, spec)
    check(strategy, graph, spec, available_communicators=available_communicators)
    return strategy


def builders() -> tuple[BuilderInfo, ...]:
    """All builders in alphabetical order; those of other packages that can't be loaded give a :class:`PluginWarning`.

    Raises:
        StrategyError: If two packages bring builders of one name.

    """
    infos = []
    for name, load in sorted(_loaders().items()):
        try:
            builder = _loaded(name, load)
        except StrategyError as error:
            warnings.warn(f"{error.message}; it is left out", PluginWarning, stacklevel=2)
            continue
        infos.append(BuilderInfo(name, builder.summary(), parameters(builder)))
    return tuple(infos)


def _loaders() -> dict[str, _Loader]:
    from importlib.metadata import entry_points  # 30 ms, which `import autodist` need not pay

    loaders = dict(_OWN)
    # A set: a package that is found twice on the path (an editable install and its metadata) is no duplicate.
    for entry in sorted(set(entry_points(group=ENTRY_POINT_GROUP)), key=lambda entry: (entry.name, entry.value)):
        if entry.name in loaders:
            raise StrategyError(
                f"two packages bring a strategy builder named `{entry.name}`, one of them is `{entry.value}`",
                hint=f"uninstall one of the packages, or rename its entry point in the group `{ENTRY_POINT_GROUP}`",
            )
        loaders[entry.name] = entry.load
    return loaders


def _loaded(name: str, load: _Loader) -> type[StrategyBuilder]:
    try:
        builder = load()
        _check_contract(name, builder)
    except Exception as error:  # whatever another package's code raises
        reason = str(error) if isinstance(error, StrategyError) else f"{type(error).__name__}: {error}"
        raise StrategyError(f"the strategy builder `{name}` can't be loaded: {reason}") from error
    return builder


def _check_contract(name: str, builder: Any) -> None:
    if not (isinstance(builder, type) and issubclass(builder, StrategyBuilder) and is_dataclass(builder)):
        raise StrategyError(f"it is {builder!r}, allowed: a dataclass from StrategyBuilder")
    if getattr(builder, "name", None) != name:
        raise StrategyError(f"its `name` is {getattr(builder, 'name', None)!r}, allowed: that of its entry point")
    get_type_hints(builder)
    parameters(builder)  # raises where a parameter has no default


def _unknown(name: str, text: str) -> StrategyError:
    known = builders()
    lines = [f"  {info.name} - {info.summary}" for info in known]
    near = suggestion(name, [info.name for info in known])
    file = f"; to use the file of this name write `.{os.sep}{text}`" if Path(text).is_file() else ""
    return StrategyError(
        "\n".join([f"the strategy `{name}` is unknown{near}{file}", "known are", *lines]),
        hint="a strategy is one of these names, or the path of a strategy's JSON file",
    )
