"""Tiled variables: activations travel in the place of gradients."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.registry import raise_mistakes
from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._base import replica_names
from autodist.strategies._builders._collectives import BesideServers, carrier_of, chunks, grouped, in_backward_order
from autodist.strategies._builders._parameters import CheckedBuilder
from autodist.strategies._builders._partitions import can_split, split
from autodist.strategies._strategy import ShardConfig, VariableConfig
from autodist.strategies.synchronizers import TileSynchronizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["Tiled"]

_WHOLE = "whole"


@final
@dataclass(frozen=True)
class Tiled(CheckedBuilder):
    """Weights are cut over all replicas, each of which computes with its part; all-reduce for the other variables.

    No gradient of such a weight travels, and no worker holds all of it; activations travel instead (SoyBean, Wang et
    al. 2018; Tofu, EuroSys'19). By itself it cuts the weights of products one after another along their last dim and
    their first one, so that what comes of one is cut as the next one takes it.

    Attributes:
        dims: Texts ``"PATTERN=DIM"``: a pattern of names and the dim that is cut, or ``whole``; the first that fits
            counts. Variables that no pattern fits are cut if they are large enough.
        min_bytes: The least size of a weight that is cut by itself.
        chunk_size: How many of the other variables a group holds at most, >= 1.
        communicator: What carries the groups; ``auto`` takes the fastest that is installed.

    Example:
        >>> str(Tiled(dims=("*/kernel=1",)))
        "Tiled(dims=('*/kernel=1',))"

    """

    name: ClassVar[str] = "Tiled"
    dims: tuple[str, ...] = ()
    min_bytes: int = 1 << 16
    chunk_size: int = 128
    communicator: BesideServers = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        raise_mistakes(
            self.name, [f"`dims` has {text!r}, allowed: `PATTERN=DIM`" for text in self.dims if not _rule(text)]
        )

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        replicas, carrier = replica_names(spec), carrier_of(self)
        tiled = dict(self._chosen(graph, len(replicas)))
        configs = {}
        for name, dim in tiled.items():
            shards = tuple(ShardConfig(TileSynchronizer(device)) for device in replicas)
            configs[name] = VariableConfig(name, shards, split(graph.variable(name), len(replicas), dim))
        rest = [variable for variable in in_backward_order(graph) if variable.name not in tiled]
        groups = chunks(rest, self.chunk_size)
        configs.update((v.name, grouped(v, groups[v.name], carrier)) for v in rest)
        return assemble(self, graph, spec, configs, carrier)

    def _chosen(self, graph: TrainingGraph, parts: int) -> Iterator[tuple[str, int]]:
        """The variables that are cut, each with the dim."""
        if parts == 1:
            return
        last = 0
        for variable in reversed(in_backward_order(graph)):
            rules = map(_rule, self.dims)
            named = next((rule[1] for rule in rules if rule and fnmatch.fnmatchcase(variable.name, rule[0])), None)
            if named is not None and named != _WHOLE:
                yield variable.name, int(named)
            elif named is None and len(variable.shape) > 1 and variable.size_bytes >= self.min_bytes:
                wanted = (0, len(variable.shape) - 1) if last else (len(variable.shape) - 1, 0)
                found = next((dim for dim in wanted if self._fits(graph, variable, dim, parts)), None)
                if found is not None:
                    yield variable.name, found
                last = 0 if found is None or last else 1

    def _fits(self, graph: TrainingGraph, variable: Variable, dim: int, parts: int) -> bool:
        return not variable.is_sparse and variable.shape[dim] % parts == 0 and can_split(graph, variable, dim)


def _rule(text: str) -> tuple[str, str] | None:
    """A pattern of names, and the dim in digits or ``whole``; None if the text is no such rule."""
    pattern, equals, dim = text.rpartition("=")
    return (pattern, dim) if equals and pattern and (dim.isdigit() or dim == _WHOLE) else None
