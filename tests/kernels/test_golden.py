"""What each pass makes of a small step, as text: a change of it is seen, and read, before it is kept.

`make golden` writes the texts anew; git shows the difference then.
"""

import difflib
import os
from pathlib import Path

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import DistributedGraph, Layout, kernels_for, rewrite
from autodist.kernels._pipeline import PREPARATIONS
from autodist.resource_spec import ResourceSpec
from autodist.strategies import get, needs_servers

from .factored import Factored

GOLDEN = Path(__file__).parent / "golden"

CASES = {
    # name: strategy, workers, devices of each, whether gradients leave as soon as they exist
    "replicas_of_one_worker": ("AllReduce(communicator='collective')", 1, 2, True),
    "all_reduce_by_tensorflow": ("AllReduce(communicator='collective')", 2, 1, True),
    "all_reduce_by_horovod": ("AllReduce(communicator='horovod')", 2, 1, True),
    "all_reduce_by_tcp": ("AllReduce(communicator='tcp')", 2, 1, True),
    "gradients_wait_for_the_last": ("AllReduce(communicator='tcp')", 2, 1, False),
    "sums_of_hosts_first": ("AllReduce(communicator='tcp')", 2, 2, True),
    "encoded": ("AllReduce(communicator='tcp', compressor='FP16')", 2, 1, True),
    "servers_by_tcp": ("PSLoadBalancing(communicator='tcp')", 2, 1, True),
    "servers_with_proxies": ("PSLoadBalancing(communicator='tcp', local_proxy=True)", 2, 1, True),
    "stale_servers": ("PSLoadBalancing(communicator='tcp', staleness=1)", 2, 1, True),
    "servers_with_stations": ("HierarchicalPS(communicator='tcp')", 2, 2, True),
    "shards_at_servers": ("PartitionedPS(communicator='tcp', min_shard_bytes=0)", 2, 1, True),
    "gradients_of_the_step_before": ("AllReduce(communicator='tcp', staleness=1)", 2, 1, True),
    "factors": (Factored(communicator="tcp"), 2, 1, True),
    "parts_at_replicas": ("Tiled(dims=('w=1', '*=whole'))", 2, 1, True),
    "parts_at_a_server": ("Tiled(dims=('w=1', '*=whole'), groups=2, served=True)", 4, 1, True),
    "rows_at_replicas": ("Tiled(dims=('table=0',))", 2, 1, True),
    "compiled_on_cpus": ("AllReduce(communicator='tcp')", 2, 1, True),
    "asynchronous_servers": ("PSLoadBalancing(communicator='tcp', sync=False)", 2, 1, True),
}


def small_step():
    """A dense layer and its update."""
    weight, bias = tf.Variable(tf.ones([3, 2]), name="w"), tf.Variable(tf.ones([2]), name="b")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ weight + bias)
        for variable, gradient in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
            variable.assign_sub(gradient)
        return loss

    return capture(step, [tf.TensorSpec([8, 3])], VariableNames()).graph


def lookup_step():
    """Rows of a table and their update."""
    table = tf.Variable(tf.ones([4, 2]), name="table")

    def step(numbers):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.gather(table, numbers))
        table.scatter_sub(tape.gradient(loss, table))
        return loss

    return capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames()).graph


def grouped_step():
    """A convolution of two groups of channels and its update."""
    filters = tf.Variable(tf.ones([2, 2, 1, 2]), name="filters")

    def step(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.conv2d(images, filters, 1, "VALID"))
        filters.assign_sub(tape.gradient(loss, filters))
        return loss

    return capture(step, [tf.TensorSpec([8, 3, 3, 2])], VariableNames()).graph


STEPS = {"rows_at_replicas": lookup_step, "compiled_on_cpus": grouped_step}
"""Those that are not of the small step."""


def lines(graph):
    """A node each: its name, op, inputs and device."""
    found = []
    for node in graph.graph_def.node:
        device = (
            node.device.replace("/replica:0", "").replace("/job:", "").replace("/task:", " ").replace("/device:", " ")
        )
        found.append(f"{node.name} = {node.op}({', '.join(node.input)})" + (f"  @ {device}" if device else ""))
    return found + [f"{variable} lives at {device}" for variable, device in sorted(graph.placement.items())]


def told(graph, strategy, workers, devices, overlap):
    """By kernel that changes the graph of the last worker: the nodes that went and those that came."""
    spec = ResourceSpec.local(workers=workers, cpus=devices)
    builder = get(strategy) if isinstance(strategy, str) else strategy
    built = builder.build(graph, spec)
    layout = Layout.of(built, spec, workers - 1, server=workers > 1 and needs_servers(built))
    found, before = [], []

    def observe(one, rewritten):
        nonlocal before
        if one == "settle" and not rewritten.placement:
            return  # nothing is known of earlier steps: the texts begin with the replicas
        after = lines(rewritten)
        changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        if changes:
            found.extend([f"## {one}", *sorted(changes, key=lambda line: line[0] != "-"), ""])
        before = after

    for preparation in PREPARATIONS:
        prepared, built = preparation.apply(graph, built)
        if prepared is not graph:
            observe("captured", DistributedGraph.of(graph, layout))
            observe(preparation.name, DistributedGraph.of(prepared, layout))
        graph = prepared
    earlier = {variable.name: layout.main_device for variable in graph.trainable[:1]} if workers == 1 else {}
    rewrite(graph, layout, kernels_for(graph, built, extras=(), overlap=overlap, placement=earlier), observe)
    return "\n".join([f"# {strategy}, the last of {workers} workers with {devices} devices each", "", *found])


@pytest.mark.parametrize("name", CASES)
def test_kernels_make_what_is_written(name):
    text, file = told(STEPS.get(name, small_step)(), *CASES[name]), GOLDEN / f"{name}.txt"
    if os.environ.get("AUTODIST_TESTS_WRITE") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "if this is meant: make golden"


@pytest.mark.parametrize("name", ["sums_of_hosts_first", "encoded", "servers_with_stations", "parts_at_replicas"])
def test_passes_keep_nothing_of_a_graph_and_leave_it_as_it_is(name):
    strategy, workers, devices, overlap = CASES[name]
    spec, graph = ResourceSpec.local(workers=workers, cpus=devices), small_step()
    built = get(strategy).build(graph, spec)
    for preparation in PREPARATIONS:
        graph, built = preparation.apply(graph, built)
    layout = Layout.of(built, spec, workers - 1, server=needs_servers(built))
    kernels, given = kernels_for(graph, built, extras=(), overlap=overlap), graph.graph_def.SerializeToString()
    first, again = (rewrite(graph, layout, kernels)[0] for _ in range(2))
    assert first.graph_def == again.graph_def
    assert graph.graph_def.SerializeToString() == given


def test_every_pass_of_ours_is_in_one_of_them():
    written = "".join(file.read_text() for file in GOLDEN.glob("*.txt"))
    spec = ResourceSpec.local(workers=2)
    graph = small_step()
    kernels = kernels_for(graph, get("AllReduce").build(graph, spec), extras=(), overlap=False)
    names = {one.name for one in (*PREPARATIONS, *kernels)}
    assert {name for name in names if f"## {name}\n" not in written} == set()
