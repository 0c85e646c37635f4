"""Tiled variables: activations travel instead of gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from autodist.errors import SpaceEmpty, StrategyError
from autodist.fitting_names import fits_name
from autodist.graph import TrainingGraph
from autodist.registry import raise_mistakes
from autodist.resource_spec import Mesh, ResourceSpec
from autodist.search.tilings._exchange_price import bytes_of_an_exchange
from autodist.search.tilings._plan_tiling import plan_tiling
from autodist.simulator import Domain, device_needs
from autodist.strategies import (
    Strategy,
    StrategyBuilder,
    can_tile,
    group_problems,
    in_backward_order,
    tile_variables,
    why_whole,
)
from autodist.strategies.tiling import TilingPlan

_WHOLE = "whole"
_MOST_NAMES = 4
_LEAST_BYTES = 1 << 16
"""The least bytes of a weight that is tiled if only the variables of a step are known."""


@final
@dataclass(frozen=True)
class Tiled(StrategyBuilder):
    """Weights are cut over all replicas, each of which computes with its part; all-reduce for the other variables.

    No gradient of such a weight travels, and no worker keeps all of it; activations travel instead. Which dims are cut
    is searched for: those with which a step moves the fewest bytes (SoyBean, Wang et al. 2018; Tofu, EuroSys'19), where
    an exchange that the computation waits for has a price of its own. So for large batches of small weights it may cut
    nothing.

    Attributes:
        dims: Texts ``"PATTERN=DIM"``: a pattern of names and the dim that is cut, or ``whole``; the first that fits
            counts. For variables that no pattern fits it is searched.
        memory_gb: The most memory that each device may need, in GB, as `autodist explain` estimates it; None for no
            limit but the memory of the cluster's hosts.
        groups: Into how many groups replicas fall, one after the other. Each group has all parts, and acts as one
            replica: the batch is cut between groups, and gradients of each part are all-reduced between them.
        compressor: Encoder of the gradients that travel, such as ``BF16``: of variables that are not cut, and of parts
            between groups, as far as it can encode them.
        served: Whether one group applies the updates of a part for all groups, as a parameter server: it keeps the
            part's slots, and sends the other groups the new value. These gradients are not encoded.
        staleness: How many steps after its own a gradient is exchanged between groups and applied; above 0, it travels
            while the next steps compute, and a step's values lack the updates of so many steps before it.

    Raises:
        StrategyError: A text is no such rule, the limit no number above 0, the number of groups not at least 1, or the
            staleness below 0; on building, the groups do not fit the replicas of the cluster.

    Example:
        >>> str(Tiled(dims=("*/kernel=1",)))
        "Tiled(dims=('*/kernel=1',))"
    """

    name: ClassVar[str] = "Tiled"
    dims: tuple[str, ...] = ()
    memory_gb: float | None = None
    groups: int = 1
    compressor: str | None = None
    served: bool = False
    staleness: int = 0

    def __post_init__(self) -> None:
        mistakes = [f"`dims` has {text!r}, allowed: `PATTERN=DIM`" for text in self.dims if not _rule(text)]
        if self.memory_gb is not None and not self.memory_gb > 0:
            mistakes.append(f"`memory_gb` is {self.memory_gb}, allowed: a number above 0, or None")
        if self.groups < 1:
            mistakes.append(f"`groups` is {self.groups}, allowed: a whole number of at least 1")
        if self.served and self.groups == 1:
            mistakes.append("`served` is True with one group, allowed: False, or more `groups`")
        if self.staleness < 0:
            mistakes.append(f"`staleness` is {self.staleness}, allowed: a whole number of at least 0")
        if self.staleness and self.groups == 1:
            mistakes.append(f"`staleness` is {self.staleness} with one group, allowed: 0, or more `groups`")
        raise_mistakes(self.name, mistakes)

    def check_cluster(self, spec: ResourceSpec) -> None:
        """See the base class."""
        replicas = len(spec.replicas)
        if replicas % self.groups:
            raise_mistakes(self.name, [f"`groups` is {self.groups}, allowed: a divisor of the {replicas} replicas"])
        if 1 < self.groups < replicas:
            names = [device.name for device in spec.replicas]
            raise_mistakes(self.name, map(str, group_problems(self.groups, names, spec)))

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        self.check_cluster(spec)
        parts = len(spec.replicas) // self.groups
        if parts == 1:
            return tile_variables(self, graph, spec, {}, compressor=self.compressor, staleness=self.staleness)
        named = {variable.name: self._named(variable.name) for variable in graph.trainable}
        self._check(graph, named, parts)
        found, remark = self._searched(graph, spec, named)
        remark = "; ".join(filter(None, (self._idle(graph), _why_none(graph, named), remark)))
        strategy = self._strategy(graph, spec, named, found, remark)
        self._check_memory(strategy, graph, spec)
        return strategy

    def _strategy(
        self,
        graph: TrainingGraph,
        spec: ResourceSpec,
        named: Mapping[str, str | None],
        searched: Mapping[str, int],
        remark: str = "",
    ) -> Strategy:
        """The strategy with dims that were found for those variables that no rule names."""
        parts = len(spec.replicas) // self.groups
        free = {name: dim for name, dim in searched.items() if named.get(name, _WHOLE) is None}
        dims = {name: dim for name, dim in free.items() if can_tile(graph, name, dim, parts)}
        dims |= {name: int(dim) for name, dim in named.items() if dim is not None and dim != _WHOLE}
        return tile_variables(
            self, graph, spec, dims, remark, self.groups, self.compressor, self.served, self.staleness
        )

    def _check(self, graph: TrainingGraph, named: Mapping[str, str | None], parts: int) -> None:
        """Refuse dims that variables do not have, or that are too short."""
        mistakes = []
        for name, dim in named.items():
            shape = graph.variable(name).shape
            if dim is None or dim == _WHOLE:
                continue
            told = f"`dims` cuts dim {dim} of `{name}`, allowed: a dim of its shape {shape}"
            if int(dim) >= len(shape):
                mistakes.append(f"{told}, or `{_WHOLE}`")
            elif shape[int(dim)] < parts:
                mistakes.append(f"{told} that has at least {parts} elements, one for each part, or `{_WHOLE}`")
        raise_mistakes(self.name, mistakes)

    def _idle(self, graph: TrainingGraph) -> str:
        """A remark about rules that fit no variable."""
        names = [variable.name for variable in graph.trainable]
        rules = [(text, rule[0]) for text in self.dims if (rule := _rule(text)) is not None]
        idle = [repr(text) for text, pattern in rules if not any(fits_name(pattern, n) for n in names)]
        some = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES])
        return f"{' and '.join(idle)} of `dims` fit none of the trained variables, such as {some}" if idle else ""

    def _named(self, variable: str) -> str | None:
        rules = (rule for rule in map(_rule, self.dims) if rule is not None)
        return next((dim for pattern, dim in rules if fits_name(pattern, variable)), None)

    def _searched(
        self, graph: TrainingGraph, spec: ResourceSpec, named: Mapping[str, str | None]
    ) -> tuple[Mapping[str, int], str]:
        """By variable, the dim that a search cuts; and remarks about it."""
        if None not in named.values():
            return {}, ""
        limit = self._limit_bytes(spec)
        try:
            if limit is not None:
                return self._within(limit, graph, spec, named)
            price = bytes_of_an_exchange(spec)
            return plan_tiling(self._of_group(graph), self._mesh(spec), exchange_bytes=price).cut_dims(), ""
        except StrategyError as error:
            if self.memory_gb is not None:
                raise
            remark = f"dims in turns, since nothing is known of the step: {error.message}"
            return self._in_turns(graph, spec), remark

    def _in_turns(self, graph: TrainingGraph, spec: ResourceSpec) -> dict[str, int]:
        return dict(_alternating(graph, len(spec.replicas) // self.groups))

    def _within(
        self, limit_bytes: float, graph: TrainingGraph, spec: ResourceSpec, named: Mapping[str, str | None]
    ) -> tuple[Mapping[str, int], str]:
        """Dims with which no device needs more than a limit.

        A tiling may have less only by parts that are gathered for some operator, which is not done here: then dims in
        turns may still need little.

        Raises:
            SpaceEmpty: None are found; the message gives the least need of a device.
        """
        domain = Domain.of(graph, spec)

        def needs(dims: Mapping[str, int]) -> float:
            return device_needs(self._strategy(graph, spec, named, dims), domain)

        def needs_of_plan(plan: TilingPlan) -> float:
            return needs(plan.cut_dims())

        mesh, price = self._mesh(spec), bytes_of_an_exchange(spec)
        try:
            found = plan_tiling(self._of_group(graph), mesh, int(limit_bytes), needs_of_plan, price)
            return found.cut_dims(), ""
        except SpaceEmpty as error:
            in_turns = self._in_turns(graph, spec)
            if needs(in_turns) > limit_bytes:
                raise
            return in_turns, f"dims in turns: {error.message}"

    def _limit_bytes(self, spec: ResourceSpec) -> float | None:
        """The bytes that a device may need: the limit that is given for devices, or else that of hosts."""
        if self.memory_gb is not None:
            return self.memory_gb * 1e9
        hosts = [(host.memory_gb, len(host.replica_devices)) for host in spec.hosts]
        return min((1e9 * size_gb / replicas for size_gb, replicas in hosts if size_gb and replicas), default=None)

    def _check_memory(self, strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> None:
        """Refuse a strategy that needs more memory than the limit, such as one whose dims are all given."""
        if self.memory_gb is None:
            return
        needs_gb = device_needs(strategy, Domain.of(graph, spec)) / 1e9
        if needs_gb > self.memory_gb:
            text = f"`memory_gb` is {self.memory_gb:g}, allowed with these `dims`: at least {needs_gb:.3g}"
            raise_mistakes(self.name, [text])

    def _mesh(self, spec: ResourceSpec) -> Mesh:
        """The devices of a group."""
        mesh = Mesh.of(spec).flat()
        [(name, length)] = mesh.axes
        size = length // self.groups
        return mesh if self.groups == 1 else Mesh(((name, size),), mesh.devices[:size])

    def _of_group(self, graph: TrainingGraph) -> TrainingGraph:
        """The step for the examples of a group."""
        if self.groups == 1 or graph.batch_size is None:
            return graph
        return graph.with_batch_size(max(1, graph.batch_size // self.groups))


def _alternating(graph: TrainingGraph, parts: int) -> Iterator[tuple[str, int]]:
    """The last dim of a large weight, then the first one of the next, so that one takes the parts the other makes.

    Tables are cut by rows.
    """
    is_second = False
    for variable in reversed(in_backward_order(graph)):
        if len(variable.shape) < 2 or variable.size_bytes < _LEAST_BYTES:
            continue
        last = len(variable.shape) - 1
        wanted = (0, last) if is_second or variable.is_sparse else (last, 0)
        found = next((dim for dim in wanted if can_tile(graph, variable.name, dim, parts)), None)
        if found is not None:
            yield variable.name, found
        is_second = found is not None and not is_second


def _why_none(graph: TrainingGraph, named: Mapping[str, str | None]) -> str:
    """A remark about why none of the variables that no rule names can be cut; none if one can."""
    reasons = [why_whole(graph, name) for name, dim in named.items() if dim is None]
    return f"no variable can be cut: {reasons[0]}" if reasons and all(reasons) else ""


def _rule(text: str) -> tuple[str, str] | None:
    """A pattern of names, and the dim in digits or ``whole``; None if the text is no such rule."""
    pattern, equals, dim = text.rpartition("=")
    return (pattern, dim) if equals and pattern and (dim.isdigit() or dim == _WHOLE) else None
