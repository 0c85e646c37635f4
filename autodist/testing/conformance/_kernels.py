"""The duties of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autodist.graph import TrainingGraph, VariableNames, capture
from autodist.kernels import DistributedGraph, ExtraKernel, Kernel, Layout, kernels_for, prepare, rewrite
from autodist.registry import instantiate, split_call
from autodist.resource_spec import ResourceSpec
from autodist.strategies import PSLoadBalancing, needs_servers
from autodist.testing.conformance._contract import attempted, broken_names, raise_broken

_LAYOUTS = ((1, 1), (1, 2), (2, 1), (2, 2))


def check_kernel(kernel: ExtraKernel) -> None:
    """Check that a kernel keeps its contract.

    In its place in the pipeline, on every worker of several layouts, it takes a valid graph and returns a valid one,
    the same each time, and leaves its argument as it is; what it adds is on a device by the end.

    Args:
        kernel: The candidate, with any parameters.

    Raises:
        ConformanceFailed: Lists what it does not keep, each with a layout that shows it.
    """
    broken = list(broken_names(kernel, lambda text: instantiate(type(kernel), split_call(text)[1])))
    graph = sample_step()
    shown: set[str] = set()
    for workers, replicas in _LAYOUTS:
        for rank in range(workers):
            new = [text for text in _broken_in(kernel, graph, workers, replicas, rank) if text not in shown]
            shown.update(new)
            broken += [f"{text} (rank {rank} of {workers} with {replicas} replicas each)" for text in new]
    raise_broken(kernel, broken)


def sample_step(*, has_table: bool = True) -> TrainingGraph:
    """A step with a dense variable, momentum, and a mean that is returned.

    Args:
        has_table: Whether there is a sparse variable as well.
    """
    import tensorflow as tf

    table = tf.Variable(tf.ones([7, 3]), name="table") if has_table else tf.ones([7, 3])
    kernel = tf.Variable(tf.ones([3, 2]), name="kernel")
    momentum = tf.Variable(tf.zeros([3, 2]), name="momentum")

    def step(rows: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            found = tf.gather(table, rows) @ kernel
            loss = tf.reduce_mean(tf.square(found - wanted))
        dense, *sparse = tape.gradient(loss, [kernel, *([table] if has_table else [])])
        for gradient in sparse:
            table.scatter_sub(gradient)
        momentum.assign(0.9 * momentum + dense)
        kernel.assign_sub(0.1 * momentum)
        return loss

    specs = [tf.TensorSpec([8], tf.int32), tf.TensorSpec([8, 2], tf.float32)]
    return capture(step, specs, VariableNames()).graph


def _broken_in(kernel: ExtraKernel, graph: TrainingGraph, workers: int, replicas: int, rank: int) -> Iterator[str]:
    spec = ResourceSpec.local(workers=workers, cpus=replicas)
    training, strategy = prepare(graph, PSLoadBalancing().build(graph, spec))
    layout = Layout.of(strategy, spec, rank, server=needs_servers(strategy))
    spy = _Spy(kernel)
    own = kernels_for(training, strategy, extras=())
    places = [one.name for one in own]
    if kernel.after not in places:
        yield f"it is to follow {kernel.after!r}, allowed: {', '.join(map(repr, places))}"
        return
    at = places.index(kernel.after) + 1
    pipeline = (*own[:at], spy, *own[at:])
    result, problem = attempted(lambda: rewrite(training, layout, pipeline)[0])
    yield from spy.broken
    if not isinstance(result, DistributedGraph):
        yield f"the pipeline fails with it: {problem}"
        return
    yield from _broken_result(result)


class _Spy(Kernel):
    """The candidate in its place, watched."""

    def __init__(self, kernel: ExtraKernel) -> None:
        self.kernel = kernel
        self.broken: list[str] = []

    name = "candidate"

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        before = _content(graph)
        result = self.kernel.apply(graph)
        if not isinstance(result, DistributedGraph):
            raise TypeError(f"`apply` returns a {type(result).__name__}, expected a DistributedGraph")
        if _content(graph) != before:
            self.broken.append("it changes the graph that it is given, and not a copy of it")
        elif _content(self.kernel.apply(graph)) != _content(result):
            self.broken.append("it makes another graph each time")
        return result.indexed_anew()  # as after each kernel of others


def _content(graph: DistributedGraph) -> tuple[bytes, ...]:
    return tuple(node.SerializeToString(deterministic=True) for node in graph.graph_def.node)


def _broken_result(graph: DistributedGraph) -> Iterator[str]:
    import tensorflow as tf

    with tf.Graph().as_default():
        _, problem = attempted(lambda: tf.graph_util.import_graph_def(graph.graph_def, name=""))
    if problem is not None:
        yield f"TensorFlow does not take the graph: {problem}"
    adrift = [node.name for node in graph.graph_def.node if not node.device]
    if adrift:
        yield f"it leaves {adrift[0]} without a device: follow a kernel before 'place', or set one"
