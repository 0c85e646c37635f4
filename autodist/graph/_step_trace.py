"""When the nodes of a step have run on one device, as plain data that travels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_DIGITS = 9  # nanoseconds


@dataclass(frozen=True)
class NodeTime:
    """When one node has run in a step.

    Attributes:
        op: Type of the operation that has run; TensorFlow may have replaced that of G by another one.
        start_s: When it began, in seconds from the step's begin.
        end_s: When it was done, likewise; of a node in a loop, for the last time.
        busy_s: How long it has run; of a node in a loop, in all.
    """

    op: str
    start_s: float
    end_s: float
    busy_s: float


@dataclass(frozen=True)
class TraceSubject:
    """The part of a step that is run, besides G.

    Attributes:
        device: The processor, how many of its cores are used, and TensorFlow's version.
        batch_size: Examples in a step: one replica's.
        shapes: The shapes of the arrays that are fed.
        cores_share: The fraction of the processor's cores that an operation may use at the same time.
    """

    device: str
    batch_size: int
    shapes: tuple[tuple[int, ...], ...]
    cores_share: float = 1.0

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TraceSubject:
        """Return the subject whose ``asdict`` has gone through JSON."""
        shapes = tuple(map(tuple, content["shapes"]))
        return cls(content["device"], content["batch_size"], shapes, content.get("cores_share", 1.0))


@dataclass(frozen=True)
class StepTrace:
    """Forward and backward pass of a step, run on one device without any updates.

    Attributes:
        subject: The device, batch size and input shapes of the run.
        step_s: Seconds of a step without a trace.
        processor_s: Processor time of such a step, over all cores.
        nodes: When TensorFlow's nodes, into which it has turned those of G, have run, by name. The times are those of a
            step without a trace: the first node begins at 0, the last one ends at ``step_s``.

    Example:
        >>> subject = TraceSubject("a processor, 2 threads", 32, ((32, 8),))
        >>> trace = StepTrace(subject, 0.5, 0.9, {"MatMul": NodeTime("MatMul", 0.0, 0.5, 0.5)})
        >>> StepTrace.from_json(trace.to_json()) == trace
        True
    """

    subject: TraceSubject
    step_s: float
    processor_s: float
    nodes: Mapping[str, NodeTime]

    def to_json(self) -> str:
        """One line of JSON, which :meth:`from_json` reads."""
        times = {
            name: [node.op, *(round(value, _DIGITS) for value in (node.start_s, node.end_s, node.busy_s))]
            for name, node in self.nodes.items()
        }
        content = {"subject": asdict(self.subject), "step_s": self.step_s, "processor_s": self.processor_s}
        return json.dumps({**content, "nodes": times})

    @classmethod
    def from_json(cls, text: str) -> StepTrace:
        """Return the trace that :meth:`to_json` wrote."""
        content = json.loads(text)
        nodes = {name: NodeTime(*row) for name, row in content["nodes"].items()}
        return cls(TraceSubject.from_dict(content["subject"]), content["step_s"], content["processor_s"], nodes)
