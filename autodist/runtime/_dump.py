"""``--dump-graphs``: writes the graph of a step as it is after each kernel."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autodist.kernels import DistributedGraph

_LOG = logging.getLogger("autodist")
_LONGEST_VALUE = 60
_HIDDEN = frozenset({"_output_shapes"})
_INDEX = "index.txt"


@dataclass
class GraphDump:
    """One step's graphs on one worker, in a directory of their own.

    Each graph is written as ``NN-kernel.pb``, a binary GraphDef that Netron opens, and as ``NN-kernel.txt``, one line
    per node, made to be read and compared. ``index.txt`` has one line per graph. A kernel that changes nothing is in
    the index only.

    Attributes:
        directory: Where to write; made when it is needed.
    """

    directory: Path
    _count: int = 0
    _last: Any = field(default=None, repr=False)
    _names: frozenset[str] = frozenset()
    _failed: bool = False

    @classmethod
    def of_step(cls, directory: Path, rank: int, step: str) -> GraphDump:
        """The graphs of a compiled step of a worker."""
        return cls(directory / f"rank_{rank}" / step)

    def __call__(self, name: str, graph: DistributedGraph) -> None:
        """Write a graph under a kernel's name; a failure to write is reported once, and does not end the run."""
        if self._failed:
            return
        try:
            self._write(f"{self._count:02}-{name}", graph)
        except OSError as error:
            self._failed = True
            _LOG.warning("the graphs in `%s` can't be written: %s", self.directory, error.strerror or error)
        self._count += 1

    def _write(self, name: str, graph: DistributedGraph) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._last is graph.graph_def:
            self._note(f"{name:<24} the same graph")
            return
        names = frozenset(node.name for node in graph.graph_def.node)
        (self.directory / f"{name}.pb").write_bytes(graph.graph_def.SerializeToString(deterministic=True))
        with (self.directory / f"{name}.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in (*_promises(graph), *map(_line, graph.graph_def.node)))
        news = f"{len(names - self._names)} new, {len(self._names - names)} gone" if self._last is not None else ""
        self._note(f"{name:<24} {len(names)} nodes  {news}".rstrip())
        self._last, self._names = graph.graph_def, names

    def _note(self, line: str) -> None:
        with (self.directory / _INDEX).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _promises(graph: DistributedGraph) -> list[str]:
    """The results and effects that the step is run for, and where workers meet, as comments."""
    told = [f"# output {number}: {tensor}" for number, tensor in enumerate(graph.outputs)]
    told += [f"# effect: {effect}" for effect in graph.effects]
    for point in graph.points:
        what = f"gradient of {point.variable}" if point.variable is not None else "state"
        told.append(f"# {what}: {', '.join(point.local)} -> {', '.join(point.synced)} ({point.combine.value})")
    return told


def _line(node: Any) -> str:
    """A node as ``name = Op(inputs)  @device  attributes``."""
    attributes = [f"{key}={_value(node.attr[key])}" for key in sorted(node.attr) if key not in _HIDDEN]
    device = f"  @{node.device}" if node.device else ""
    return f"{node.name} = {node.op}({', '.join(node.input)}){device}  {' '.join(attributes)}".rstrip()


def _value(attribute: Any) -> str:
    """An attribute's value, shortened; tensors by their dtype and shape."""
    from tensorflow.python.framework import dtypes

    kind = attribute.WhichOneof("value")
    value: Any = getattr(attribute, kind) if kind is not None else ""
    if kind == "type":
        text = str(dtypes.as_dtype(value).name)
    elif kind == "shape":
        text = _shape(value)
    elif kind == "tensor":
        text = f"{dtypes.as_dtype(value.dtype).name}{_shape(value.tensor_shape)}{_content(value)}"
    elif kind == "s":
        text = repr(value)[1:]
    else:
        text = value.name if kind == "func" else " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _shape(shape: Any) -> str:
    return "[?]" if shape.unknown_rank else f"[{','.join('?' if dim.size < 0 else str(dim.size) for dim in shape.dim)}]"


def _content(tensor: Any) -> str:
    """The value of a scalar."""
    from tensorflow.python.framework import tensor_util

    return f"({tensor_util.MakeNdarray(tensor)})" if not tensor.tensor_shape.dim else ""
