"""Several workers in one process, each with its own graph, session and thread: what kernels make, running."""

import concurrent.futures
import contextlib
import functools
import itertools
import socket

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

from autodist.graph import VariableNames, capture
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime.data import split_global
from autodist.runtime.session import Server
from autodist.runtime.session._orderings import keep_orderings_in_session
from autodist.runtime.session._request_ids import number_requests_by_one_generator
from autodist.strategies import PACK_BYTES, GraphConfig, PSSynchronizer, Strategy, VariableConfig, check

from .single import specs_of

MOST_WORKERS, CPUS = 3, 2
TIMEOUT_MS = 20_000
_numbers = itertools.count()


def spec(*cpus):
    """A cluster of the hosts `h0`, `h1`... with so many CPU devices each."""
    return ResourceSpec(tuple(Host(f"h{k}", f"h{k}", cpus=count) for k, count in enumerate(cpus)))


def served(graph, replicas, destinations, pack_bytes=PACK_BYTES, **options):
    """A strategy that gives all variables to servers, to the destinations in turn, coupled ones to the same."""
    homes = itertools.cycle(destinations)
    chosen = {}
    for variable in graph.trainable:
        if min(variable.coupled) not in chosen:
            chosen[min(variable.coupled)] = next(homes)
    configs = [VariableConfig.whole(v.name, PSSynchronizer(chosen[min(v.coupled)], **options)) for v in graph.trainable]
    return Strategy(GraphConfig(tuple(replicas), "queue", pack_bytes), tuple(configs))


@functools.cache
def _targets():
    """The addresses of servers in this process, which live as long as it."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(MOST_WORKERS)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
    cluster = tf.train.ClusterSpec({"worker": addresses})
    assert number_requests_by_one_generator()
    servers = [tf.distribute.Server(cluster, task_index=k, config=_config()) for k in range(MOST_WORKERS)]
    return [server.target for server in servers]


def _config():
    config = tf.compat.v1.ConfigProto(device_count={"CPU": CPUS}, allow_soft_placement=True)
    keep_orderings_in_session(config)
    return config


class Member:
    """One worker of a cluster."""

    def __init__(self, captured, graph, container):
        self.captured, self.graph, self._container = captured, graph, container
        self.rank = graph.layout.rank
        self._imported = tf.Graph()
        with self._imported.as_default():
            tf.graph_util.import_graph_def(graph.graph_def, name="step")
        self.session = tf.compat.v1.Session(_targets()[self.rank], graph=self._imported, config=_config())
        self._reads = {}
        self.servers = []

    def initialize(self, values):
        """Set the variables that live here, and make reads of them."""
        with self._imported.as_default():
            for v in self.captured.graph.variables:
                home = self.graph.homes[v.name]
                if f"task:{self.rank}/" not in home:
                    continue
                with tf.device(home):
                    handle = tf.raw_ops.VarHandleOp(
                        dtype=v.dtype, shape=v.shape, shared_name=v.name, container=self._container
                    )
                    self.session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(values[v.name])))
                    self._reads[v.name] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(v.dtype))
        self.run(self.graph.initializers)
        self.servers = [
            Server(serving, self._callable(serving.targets), self._callable(serving.stops))
            for serving in self.graph.serving
        ]

    def _callable(self, targets):
        options = config_pb2.CallableOptions(target=[f"step/{target}" for target in targets])
        return self.session._make_callable_from_options(options)

    def drain(self, steps):
        """Wait until the messages of so many steps, by rank, have been applied."""
        for server in self.servers:
            server.wait_for(server.expected_rounds(steps), TIMEOUT_MS / 1000)

    def refresh(self):
        """Bring the variables' values to this worker's proxies."""
        self.run([refresher.node for refresher in self.graph.refreshers.values()])

    def run(self, names, feed=None, fetches=()):
        """Run nodes of the step, within a bound."""
        options = tf.compat.v1.RunOptions(timeout_in_ms=TIMEOUT_MS)
        wanted = [[f"step/{name}" for name in names], [f"step/{t}" + ("" if ":" in t else ":0") for t in fetches]]
        return self.session.run(wanted, feed, options=options)[1]

    def step(self, arrays):
        """Take part in a step on a global batch; returns the outputs."""
        return self.run(self.graph.effects, self._feeds(arrays), self.graph.outputs)

    def _feeds(self, arrays):
        layout, feed = self.graph.layout, {}
        ranges = [(0, 0)]
        if not layout.is_idle:
            count = len(layout.local_replicas)
            ranges = split_global(len(arrays[0]), layout.num_replicas, layout.first_replica, count).ranges
        for array, names in zip(arrays, self.graph.feeds, strict=True):
            for name, (start, stop) in zip(names, ranges, strict=True):
                if name is not None:
                    feed[f"step/{name}:0"] = array[start:stop] if stop > start else array[:1]
        if self.graph.rows is not None:
            feed[f"step/{self.graph.rows}:0"] = np.float32([stop - start for start, stop in ranges])
        if self.graph.total is not None:
            feed[f"step/{self.graph.total}:0"] = np.float32(len(arrays[0]))
        return feed

    def values(self):
        """The variables that live here."""
        return dict(zip(self._reads, self.session.run(list(self._reads.values())), strict=True))


class Cluster:
    """The workers of a strategy, ready to take steps.

    Args:
        step: A training step on plain variables, which keep their values.
        arrays: A batch, for its shapes.
        plan: From G to a strategy.
        hosts: A spec.
    """

    def __init__(self, step, arrays, plan, hosts):
        number = next(_numbers)
        batch = [tf.TensorSpec([None, *s.shape[1:]], s.dtype) for s in specs_of(arrays)]
        self.captured = capture(step, batch, VariableNames())
        self.strategy = plan(self.captured.graph)
        check(self.strategy, self.captured.graph, hosts)
        training, strategy = prepare(self.captured.graph, self.strategy)
        container = f"cluster_{number}"
        kernels = kernels_for(training, strategy, step=f"cluster_{number}", container=container)
        layouts = [Layout.of(strategy, hosts, rank, server=True) for rank in range(hosts.world_size)]
        graphs = [rewrite(training, layout, kernels)[0] for layout in layouts]
        self.members = [Member(self.captured, graph, container) for graph in graphs]
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self.members))
        values = {name: _value(handle) for name, handle in self.captured.handles.items()}
        for member in self.members:
            member.initialize(values)
        for member in self.members:
            member.refresh()

    def step(self, *arrays):
        """One step of all workers; returns the outputs of each."""
        return list(self._pool.map(lambda member: member.step(arrays), self.members))

    def values(self):
        """All variables: those at servers, and of the others each worker's own by rank."""
        found = {}
        for member in self.members:
            for name, value in member.values().items():
                found.setdefault(name, []).append(value)
        return found

    def close(self):
        """End the sessions."""
        self._pool.shutdown()
        for member in self.members:
            for server in member.servers:
                server.stop()
        for member in self.members:
            member.session.close()


def _value(handle):
    dtype = handle._handle_data.shape_and_type[0].dtype
    with context.eager_mode():
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(dtype)).numpy()


def certify(make_step, batches, plan, hosts, rtol=1e-5):
    """Take the same steps on one device and on a cluster; every variable and output must agree. Returns the cluster."""
    cluster = Cluster(make_step(), batches[0], plan, hosts)
    found = [cluster.step(*batch) for batch in batches]
    values = cluster.values()
    cluster.close()
    single = make_step()
    captured = capture(single, specs_of(batches[0]), VariableNames())
    before = {name: _value(handle) for name, handle in captured.handles.items()}
    function = tf.function(single)
    for batch, outputs in zip(batches, found, strict=True):
        expected = tf.nest.flatten(function(*map(tf.constant, batch)))
        for by_rank in outputs:
            for one, many in zip(expected, by_rank, strict=True):
                _assert_close(many, one.numpy(), rtol)
    moved = 0
    for (name, handle), found_name in zip(captured.handles.items(), cluster.captured.handles, strict=True):
        expected = _value(handle)
        moved += not np.array_equal(expected, before[name])
        for value in values[found_name]:
            _assert_close(value, expected, rtol)
    assert moved
    return cluster


def _assert_close(found, expected, rtol):
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * (scale or 1.0))
