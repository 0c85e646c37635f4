"""The time of a step's computation on one device, and when each variable is needed and its gradient ready."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from autodist.cost.operations import node_costs
from autodist.errors import SimulatorError
from autodist.graph import StepTrace, node_of
from autodist.simulator.profiles._node_times import NodeTimes
from autodist.simulator.profiles._work import readers, variable_seconds
from autodist.strategies import in_backward_order

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

_VERSION = 2
_FIRST_VERSION = 1
"""The version of files that don't say theirs."""
_WAITS = 2.0
"""The multiple of its processor time from which on a step counts as having waited for something else."""


@dataclass(frozen=True)
class Profile:
    """The computation of one step on one device, for the batch that it was made with.

    Attributes:
        step_s: Forward and backward pass together, without the updates, in seconds.
        needed_s: By trainable variable, when its value is first needed, in seconds from the start.
        ready_s: By trainable variable, when its last gradient is known, in seconds from the start.
        batch_size: Examples that it was made for.
        source: Whether it was measured, or estimated from the sizes of the operations.
        op_s: By type of operation, seconds of all of them, the longest first. Operations may run side by side.
        variable_s: By trainable variable, seconds of the operations that read its value or make its gradient.
        processor_s: Processor time of the step, over all cores; 0 if it was not measured.
        coverage: The fraction of the operations with a measured time; those that TensorFlow folds or fuses have none. 0
            if nothing was measured.
        device: The device that it was measured on.
        cores_share: The fraction of the device's cores that an operation could use at the same time: workers that share
            cores have fewer threads.

    Example:
        >>> Profile(0.2, {"w": 0.0}, {"w": 0.2}, batch_size=32).scaled(16).ready_s
        {'w': 0.1}
    """

    step_s: float
    needed_s: Mapping[str, float]
    ready_s: Mapping[str, float]
    batch_size: int
    source: Literal["measured", "estimated"] = field(default="estimated")
    op_s: Mapping[str, float] = field(default_factory=dict)
    variable_s: Mapping[str, float] = field(default_factory=dict)
    processor_s: float = 0.0
    coverage: float = 0.0
    device: str = ""
    cores_share: float = 1.0

    @classmethod
    def estimate(cls, graph: TrainingGraph, batch_size: int) -> Profile:
        """The profile of a device of average speed, from the operations' sizes alone.

        Operations are taken to run one after the other, as late as the order of the gradients allows.

        Args:
            graph: G. The step of one that is only described takes no time.
            batch_size: Examples of the batch.
        """
        if graph.graph_def is None:
            nothing = dict.fromkeys((v.name for v in graph.trainable), 0.0)
            return cls(0.0, nothing, nothing, batch_size)
        turns = _turns(graph)
        costs = {name: cost for name, cost in node_costs(graph, batch_size).items() if name in turns}
        seconds = {name: c.device_s for name, c in costs.items()}
        step_s, needed_s, ready_s = _timeline(graph, turns, seconds)
        op_s, variable_s = _by_op(graph, seconds), variable_seconds(graph, seconds)
        return cls(step_s, needed_s, ready_s, batch_size, op_s=op_s, variable_s=variable_s)

    @classmethod
    def measured(cls, graph: TrainingGraph, trace: StepTrace) -> Profile:
        """The profile that a traced step gives.

        Args:
            graph: G, with its GraphDef.
            trace: Trace of G.
        """
        times, step_s = NodeTimes(graph, trace), trace.step_s
        needed_s, ready_s = {}, {}
        for name, nodes in readers(graph).items():
            starts = [start_s for start_s in map(times.start_s, nodes) if start_s is not None]
            needed_s[name] = min([step_s, *starts])
        for variable in graph.trainable:
            marks = list(map(node_of, variable.gradient_tensors))
            ready_s[variable.name] = min(step_s, max(map(times.end_s, marks), default=step_s))
        busy_s = {name: time.busy_s for name, time in times.seen.items()}
        return cls(
            step_s,
            needed_s,
            ready_s,
            trace.subject.batch_size,
            "measured",
            times.op_s,
            variable_seconds(graph, busy_s, times.run_as),
            trace.processor_s,
            times.coverage,
            trace.subject.device,
            trace.subject.cores_share,
        )

    @property
    def is_disturbed(self) -> bool:
        """Whether the step has waited most of the time when it was measured, as on a machine with other work."""
        return self.source == "measured" and self.step_s > _WAITS * self.processor_s > 0

    def scaled(self, batch_size: float) -> Profile:
        """The same computation on another number of examples, its time proportional to it."""
        factor = batch_size / self.batch_size
        needed, ready, ops, variables = (
            {name: time * factor for name, time in times.items()}
            for times in (self.needed_s, self.ready_s, self.op_s, self.variable_s)
        )
        return replace(
            self,
            step_s=self.step_s * factor,
            needed_s=needed,
            ready_s=ready,
            batch_size=max(1, round(batch_size)),
            op_s=ops,
            variable_s=variables,
            processor_s=self.processor_s * factor,
        )

    def to_json(self) -> str:
        """One line of JSON, which :meth:`from_json` reads."""
        return json.dumps({"version": _VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Return the profile that :meth:`to_json` wrote, in this version of AutoDist or an earlier one.

        Raises:
            SimulatorError: It is none, or of a later version.
        """
        try:
            content = json.loads(text)
            version = content.pop("version", _FIRST_VERSION)
            if isinstance(version, int) and version > _VERSION:
                raise SimulatorError(
                    f"this is a profile of version {version}, this AutoDist reads up to {_VERSION}",
                    hint="it was written by a newer AutoDist: upgrade this one",
                )
            return cls(**_checked(content))
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, SimulatorError):
                raise
            raise SimulatorError(
                f"this is not a profile: {error}", hint="make it again with `autodist profile`"
            ) from error


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a profile, after a check of their types."""
    kinds = {f.name: f.type for f in fields(Profile)}
    for name, value in content.items():
        kind = kinds.get(name, "")
        if kind.startswith("Mapping") and not (isinstance(value, dict) and all(map(_is_number, value.values()))):
            raise TypeError(f"its `{name}` is not a table of numbers by name")
        if kind in ("int", "float") and not _is_number(value):
            raise TypeError(f"its `{name}` is not a number")
    return content


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_op(graph: TrainingGraph, seconds: Mapping[str, float]) -> dict[str, float]:
    """By type of operation, the seconds of all of them, the longest first."""
    found: dict[str, float] = {}
    for name, time_s in seconds.items():
        op = graph.analysis.nodes[name].op
        found[op] = found.get(op, 0.0) + time_s
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _timeline(
    graph: TrainingGraph, turns: Mapping[str, int], seconds: Mapping[str, float]
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Length of the computation, when each variable is first read and when its gradient is ready."""
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
        for tensor in variable.gradient_tensors:
            turns.setdefault(node_of(tensor), turn)
    for name in reversed(graph.analysis.order):
        for source in graph.analysis.sources[name] if name in turns else ():
            turns[source] = min(turns.get(source, turns[name]), turns[name])
    return turns
