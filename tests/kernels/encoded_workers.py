"""Several workers of a made-up cluster in one session of this process: points are joined without communicators."""

import numpy as np
import tensorflow as tf
from compressors.workers import prefixed

from autodist.graph import NodeList, VariableNames, capture
from autodist.kernels import Combine, Encode, Layout, Place, Prune, Replicate, rewrite
from autodist.resource_spec import ResourceSpec

PREFIX = "worker_{}/"
DIM = "dim_0"


class EncodedWorkers:
    """Workers with one replica each that run a step of one batch input, under a strategy with compressors."""

    def __init__(self, step, spec, builder, workers=2):
        cluster = ResourceSpec.local(workers=workers)
        self.training = capture(step, [spec], VariableNames()).graph
        strategy = builder.build(self.training, cluster)
        nodes = NodeList()
        nodes.constant(DIM, 0, "int32")
        self.graphs = [self._rewritten(strategy, cluster, rank) for rank in range(workers)]
        graph_def = tf.compat.v1.GraphDef()
        for rank, graph in enumerate(self.graphs):
            arrived = {node.name: node for node in graph.graph_def.node}
            for point in graph.points:
                for local, synced in zip(point.local, point.synced, strict=True):
                    self._join(arrived[synced], local, point.combine)
            nodes_here = [*graph.graph_def.node, *nodes.nodes]
            graph_def.node.extend(prefixed(node, PREFIX.format(rank)) for node in nodes_here)
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
        self.session = tf.compat.v1.Session(graph=self.graph)
        self._start()

    def _rewritten(self, strategy, cluster, rank):
        layout = Layout.of(strategy, cluster, rank, server=False)
        container = f"{id(self)}_{rank}"
        kernels = [Replicate(self.training), Encode(strategy, "step", container), Place(container), Prune()]
        return rewrite(self.training, layout, kernels)[0]

    def _join(self, node, local, combine):
        tensors = [f"@{PREFIX.format(rank)}{local}" for rank in range(len(self.graphs))]
        del node.input[:]
        if combine is Combine.SUM:
            node.op = "AddN"
            node.input.extend(tensors)
            node.attr["N"].i = len(tensors)
            return
        node.op = "ConcatV2"
        node.input.extend([*tensors, DIM])
        node.attr["N"].i = len(tensors)
        node.attr["Tidx"].type = tf.int32.as_datatype_enum

    def _start(self):
        ranks = range(len(self.graphs))
        self.reads = {}
        with self.graph.as_default():
            for rank in ranks:
                for v in self.training.variables:
                    handle = self.graph.get_tensor_by_name(f"{PREFIX.format(rank)}{v.handle}:0")
                    self.session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(v.shape, v.dtype)))
                    self.reads[rank, v.name] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=v.dtype)
        self.session.run([PREFIX.format(rank) + node for rank in ranks for node in self.graphs[rank].initializers])

    def step(self, parts):
        """Run a step on one part of the batch per worker."""
        feed, targets = {}, []
        for rank, (graph, part) in enumerate(zip(self.graphs, parts, strict=True)):
            prefix = PREFIX.format(rank)
            feed[f"{prefix}{graph.feeds[0][0]}:0"] = part
            feed[f"{prefix}{graph.rows}:0"] = np.array([len(part)], np.float32)
            targets += [prefix + effect for effect in graph.effects]
        self.session.run(targets, feed)

    def value(self, name, rank=0):
        return self.session.run(self.reads[rank, name])
