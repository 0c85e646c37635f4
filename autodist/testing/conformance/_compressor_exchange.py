"""Several workers exchange gradients by a compressor, in one session of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.compressors import Channel, Compressor
from autodist.graph import NodeList, full_name

_PREFIX = "w{}/"


@dataclass(frozen=True)
class Step:
    """Every worker's values after a step.

    Attributes:
        totals: The decoded sum of all workers' gradients.
        owns: The decoded contribution of the worker itself.
        states: Its state by name.
    """

    totals: list[Any]
    owns: list[Any]
    states: list[dict[str, Any]]


class _Recorder(Channel):
    """One worker's channel: what arrives is joined from the nodes that all workers have under the same names."""

    def __init__(self, nodes: NodeList, count: int) -> None:
        self.nodes = nodes
        self.count = count
        self.num_bytes = 0
        self.states: dict[str, str] = {}
        self.kept: dict[str, str] = {}

    @property
    def world_size(self) -> int:
        return self.count

    def all_reduce(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        self._note(dtype, shape)
        return self.nodes.sum(f"arrived/{name}", self._all(tensor), dtype)

    def gather(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        self._note(dtype, shape)
        return self.nodes.add("Pack", f"arrived/{name}", self._all(tensor), N=self.count, T=dtype, axis=0)

    def state(self, name: str, initial: str, dtype: str, shape: Sequence[int]) -> str:
        self.states[name] = initial
        return self.nodes.add("Placeholder", f"state/{name}", dtype=dtype, shape=list(shape))

    def keep(self, name: str, tensor: str) -> None:
        assert name in self.states, f"`keep` of the state {name!r}, which `state` was not asked for"
        self.kept[name] = tensor

    def _all(self, tensor: str) -> list[str]:
        return [f"@{_PREFIX.format(worker)}{tensor}" for worker in range(self.count)]

    def _note(self, dtype: str, shape: Sequence[int]) -> None:
        import tensorflow as tf

        assert all(isinstance(size, int) for size in shape), f"the shape {shape} of a message is not static"
        self.num_bytes += tf.as_dtype(dtype).size * int(np.prod(shape, dtype=int))


class Exchange:
    """A compressor between several workers, for gradients of one shape and dtype.

    Args:
        compressor: The compressor.
        shape: Shape of the gradients.
        dtype: Dtype of the gradients.
        count: How many workers.

    Attributes:
        num_bytes: What one worker sends in a step.
        states: Each worker's state by name, for the next step.

    Example:
        >>> from autodist.compressors import FP16
        >>> exchange = Exchange(FP16(), (2,))
        >>> exchange.num_bytes, exchange.step([[1.0, 2.0], [0.5, 0.0]]).totals[1].tolist()
        (4, [1.5, 2.0])
    """

    def __init__(self, compressor: Compressor, shape: Sequence[int], dtype: str = "float32", count: int = 2) -> None:
        import tensorflow as tf

        self.count = count
        graph_def = tf.compat.v1.GraphDef()
        for worker in range(count):
            nodes = NodeList(device="/device:CPU:0")
            gradient = nodes.add("Placeholder", "gradient", dtype=dtype, shape=list(shape))
            self._channel = _Recorder(nodes, count)
            self._found = compressor.exchange(nodes, "encoded", gradient, shape, dtype, self._channel)
            graph_def.node.extend(prefixed(node, _PREFIX.format(worker)) for node in nodes.nodes)
        self.num_bytes = self._channel.num_bytes
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
        self._session = tf.compat.v1.Session(graph=graph)
        initial = self._channel.states.items()
        self.states = self._session.run([{k: _name(w, tensor) for k, tensor in initial} for w in range(count)])

    def step(self, gradients: Sequence[Any]) -> Step:
        """Exchange one gradient per worker."""
        feed: dict[str, Any] = {}
        for worker, gradient in enumerate(gradients):
            feed[_name(worker, "gradient")] = gradient
            feed |= {_name(worker, f"state/{name}"): value for name, value in self.states[worker].items()}
        wanted = {"total": self._found.total, "own": self._found.own} | self._channel.kept
        workers = range(self.count)
        got = self._session.run([{k: _name(w, tensor) for k, tensor in wanted.items()} for w in workers], feed)
        self.states = [{name: values[name] for name in self._channel.kept} for values in got]
        return Step([values["total"] for values in got], [values["own"] for values in got], self.states)


def _name(worker: int, tensor: str) -> str:
    name = _PREFIX.format(worker) + tensor
    return full_name(name)


def prefixed(node: Any, prefix: str) -> Any:
    """A copy of a node for one of several graphs in one; inputs that begin with ``@`` have their prefix."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = prefix + node.name
    for k, tensor in enumerate(node.input):
        mark, name = (tensor[0], tensor[1:]) if tensor[0] in "@^" else ("", tensor)
        copy.input[k] = name if mark == "@" else mark + prefix + name
    return copy
