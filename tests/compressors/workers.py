"""Several workers exchange gradients by a compressor, in one session of this process."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from autodist.compressors import Channel
from autodist.graph import NodeList

PREFIX = "w{}/"


@dataclass(frozen=True)
class Step:
    """What each worker had after a step."""

    totals: list
    owns: list
    states: list


class Recorder(Channel):
    """One worker's channel: what arrives is joined from the nodes that all workers have under the same names."""

    def __init__(self, nodes, count):
        self.nodes = nodes
        self.count = count
        self.num_bytes = 0
        self.rounds = {}
        self.states = {}
        self.kept = {}

    @property
    def world_size(self):
        return self.count

    def all_reduce(self, name, tensor, dtype, shape):
        self._note(dtype, shape)
        return self.nodes.sum(f"arrived/{name}", self._all(tensor), dtype)

    def gather(self, name, tensor, dtype, shape):
        self._note(dtype, shape)
        return self.nodes.add("Pack", f"arrived/{name}", self._all(tensor), N=self.count, T=dtype, axis=0)

    def state(self, name, initial, dtype, shape):
        self.states[name] = initial
        return self.nodes.add("Placeholder", f"state/{name}", dtype=dtype, shape=list(shape))

    def keep(self, name, tensor):
        assert name in self.states
        self.kept[name] = tensor

    def _all(self, tensor):
        return [f"@{PREFIX.format(worker)}{tensor}" for worker in range(self.count)]

    def _note(self, dtype, shape):
        assert not [size for size in shape if not isinstance(size, int)]
        self.num_bytes += tf.as_dtype(dtype).size * int(np.prod(shape, dtype=int))


class Exchange:
    """A compressor between `count` workers for gradients of one shape and dtype."""

    def __init__(self, compressor, shape, dtype="float32", count=2):
        self.count = count
        graph_def = tf.compat.v1.GraphDef()
        for worker in range(count):
            nodes = NodeList(device="/device:CPU:0")
            gradient = nodes.add("Placeholder", "gradient", dtype=dtype, shape=list(shape))
            self.channel = Recorder(nodes, count)
            self.found = compressor.exchange(nodes, "encoded", gradient, shape, dtype, self.channel)
            graph_def.node.extend(prefixed(node, PREFIX.format(worker)) for node in nodes.nodes)
        self.num_bytes = self.channel.num_bytes
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
        self.session = tf.compat.v1.Session(graph=graph)
        initial = self.channel.states.items()
        self.states = self.session.run([{k: self._name(w, tensor) for k, tensor in initial} for w in range(count)])

    def step(self, gradients):
        """Exchange one gradient per worker."""
        feed = {}
        for worker, gradient in enumerate(gradients):
            feed[self._name(worker, "gradient")] = gradient
            feed |= {self._name(worker, f"state/{name}"): value for name, value in self.states[worker].items()}
        wanted = {"total": self.found.total, "own": self.found.own} | self.channel.kept
        workers = range(self.count)
        got = self.session.run([{k: self._name(w, tensor) for k, tensor in wanted.items()} for w in workers], feed)
        self.states = [{name: values[name] for name in self.channel.kept} for values in got]
        return Step([v["total"] for v in got], [v["own"] for v in got], self.states)

    @staticmethod
    def _name(worker, tensor):
        name = PREFIX.format(worker) + tensor
        return name if ":" in name else f"{name}:0"


def prefixed(node, prefix):
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = prefix + node.name
    for k, tensor in enumerate(node.input):
        mark, name = (tensor[0], tensor[1:]) if tensor[0] in "@^" else ("", tensor)
        copy.input[k] = name if mark == "@" else mark + prefix + name
    return copy
