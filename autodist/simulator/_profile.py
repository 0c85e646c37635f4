"""How long the computation of a step takes on one device, and when each variable is needed and its gradient ready."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from autodist.errors import SimulatorError
from autodist.graph import node_of
from autodist.simulator._flops import DEVICE_FLOPS, MEMORY_BYTES_PER_S, node_costs
from autodist.strategies import in_backward_order

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

__all__ = ["Profile"]


@dataclass(frozen=True)
class Profile:
    """The computation of one step on one device, for the batch that it was made with.

    Attributes:
        step_s: Forward and backward pass together, without the updates, in seconds.
        needed_s: By trainable variable, how far the computation comes without its value, in seconds from the start.
        ready_s: By trainable variable, when its last gradient is known, in seconds from the start.
        batch_size: Examples that it was made for.
        source: Whether it was measured, or estimated from the sizes of the operations.

    Example:
        >>> Profile(0.2, {"w": 0.0}, {"w": 0.2}, batch_size=32).scaled(16).ready_s
        {'w': 0.1}

    """

    step_s: float
    needed_s: Mapping[str, float]
    ready_s: Mapping[str, float]
    batch_size: int
    source: Literal["measured", "estimated"] = field(default="estimated")

    @classmethod
    def estimate(cls, graph: TrainingGraph, batch_size: int) -> Profile:
        """The profile of a device of average speed, from the operations' sizes alone.

        Operations are taken to run one after the other, as late as the order of the gradients allows.

        Args:
            graph: G. One that is only described has a step of no length.
            batch_size: Examples of the batch.

        """
        if graph.graph_def is None:
            nothing = dict.fromkeys((v.name for v in graph.trainable), 0.0)
            return cls(0.0, nothing, nothing, batch_size)
        costs = node_costs(graph, batch_size)
        seconds = {name: c.flops / DEVICE_FLOPS + c.bytes / MEMORY_BYTES_PER_S for name, c in costs.items()}
        step_s, needed_s, ready_s = _timeline(graph, seconds)
        return cls(step_s, needed_s, ready_s, batch_size)

    def scaled(self, batch_size: float) -> Profile:
        """The same computation on another number of examples, its time proportional to it."""
        factor = batch_size / self.batch_size
        needed, ready = (
            {name: time * factor for name, time in times.items()} for times in (self.needed_s, self.ready_s)
        )
        return Profile(self.step_s * factor, needed, ready, max(1, round(batch_size)), self.source)

    def to_json(self) -> str:
        """One line of JSON, which :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Return the profile that :meth:`to_json` wrote.

        Raises:
            SimulatorError: It is none.

        """
        try:
            content = json.loads(text)
            return cls(**content)
        except (ValueError, TypeError) as error:
            raise SimulatorError(f"this is no profile: {error}", hint="make it anew with `autodist profile`") from error


def _timeline(graph: TrainingGraph, seconds: Mapping[str, float]) -> tuple[float, dict[str, float], dict[str, float]]:
    """Length of the computation, when each variable is first read and when its gradient is ready."""
    turns = _turns(graph)
    places = {name: place for place, name in enumerate(graph.analysis.order)}
    begin_s, ready_s, clock = {}, [0.0] * len(graph.trainable), 0.0
    for name in sorted(turns, key=lambda name: (turns[name], places[name])):
        begin_s[name] = clock
        clock += seconds.get(name, 0.0)
        ready_s[turns[name]] = clock
    needed = {v.handle: clock for v in graph.trainable}
    for name, handles in graph.analysis.reads.items():
        for handle in handles if name in begin_s else ():
            needed[handle] = min(needed.get(handle, clock), begin_s[name])
    ready = dict(zip((v.name for v in in_backward_order(graph)), accumulate(ready_s, max), strict=True))
    return clock, {v.name: needed[v.handle] for v in graph.trainable}, ready


def _turns(graph: TrainingGraph) -> dict[str, int]:
    """By node, the first gradient that needs it, counted in the order in which they are made."""
    turns: dict[str, int] = {}
    for turn, variable in enumerate(in_backward_order(graph)):
        for tensor in (tensor for gradient in variable.gradients for tensor in gradient.tensors):
            turns.setdefault(node_of(tensor), turn)
    for name in reversed(graph.analysis.order):
        for source in graph.analysis.sources[name] if name in turns else ():
            turns[source] = min(turns.get(source, turns[name]), turns[name])
    return turns
