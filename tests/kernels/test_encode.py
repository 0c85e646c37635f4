"""What compressors make of a step: encoded messages, state that stays, everything else as before."""

import dataclasses
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

from autodist.kernels import Combine
from autodist.strategies import Strategy, StrategyBuilder, get
from tests.quick import combinations

from .encoded_workers import EncodedWorkers
from .steps import captured, ops, rewritten

COLLECTIVE = "AllReduce(communicator='collective')"
SERVERS = "PSLoadBalancing(communicator='tcp')"


@dataclass(frozen=True)
class Encoded(StrategyBuilder):
    """Another builder's strategy with compressors, by the beginnings of variables' names."""

    name: ClassVar[str] = "Encoded"
    builder: str = SERVERS
    compressors: tuple[tuple[str, str], ...] = ()

    def build(self, graph, spec):
        plan = get(self.builder).build(graph, spec)
        return Strategy(plan.graph, tuple(map(self._encoded, plan.variables)), str(self))

    def _encoded(self, config):
        chosen = next((c for start, c in self.compressors if config.variable.startswith(start)), None)
        shards = tuple(dataclasses.replace(shard, compressor=chosen) for shard in config.shards)
        return dataclasses.replace(config, shards=shards)


def attributes(graph, op, name):
    return sorted(tf.as_dtype(graph.nodes[n].attr[name].type).name for n in ops(graph, op) if "group_" in n)


def importable(graph):
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(graph.graph_def, name="")
    return graph


@combinations(
    builder=[SERVERS, COLLECTIVE],
    layout=[(2, 2), (3, 1)],
    compressor=["FP16", "ErrorFeedback(TopK(ratio=0.5))", "OneBit", "RandomK"],
)
def test_every_workers_graph_is_one_that_tensorflow_takes(builder, layout, compressor):
    workers, replicas = layout
    plan = Encoded(builder, (("w", compressor), ("table", "BF16")))
    for graph in rewritten(captured(), plan, workers, replicas):
        importable(graph)
        assert all(node.device for node in graph.graph_def.node)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_worker_alone_encodes_nothing(replicas):
    source = captured()
    (plain,), (encoded,) = (
        rewritten(source, Encoded(COLLECTIVE, compressors), 1, replicas)
        for compressors in ((), (("w", "OneBit"), ("table", "FP16")))
    )
    assert plain.graph_def == encoded.graph_def
    assert encoded.initializers == ()


def test_a_group_is_split_by_dtype():
    plan = Encoded(COLLECTIVE, (("w0", "FP16"), ("w1", "BF16")))
    for graph in rewritten(captured(sparse=False), plan, 2, 1):
        assert attributes(graph, "CollectiveReduceV2", "T") == ["bfloat16", "float16", "float32"]


def test_gathered_messages_of_a_group_travel_in_one_buffer():
    plan = Encoded(COLLECTIVE, (("w0", "OneBit"), ("w", "TopK")))
    for graph in rewritten(captured(sparse=False), plan, 2, 1):
        assert attributes(graph, "CollectiveGatherV2", "T") == ["int32"]
        assert attributes(graph, "CollectiveReduceV2", "T") == []


def matrices():
    """A step over two matrices, in one group."""
    from autodist.graph import VariableNames, capture

    weights = [tf.Variable(tf.ones([8, 6]), name=f"w{k}") for k in range(2)]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ tf.add_n(weights)))
        for variable, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            variable.assign_sub(gradient)
        return loss

    return capture(step, [tf.TensorSpec([None, 8])], VariableNames()).graph


def test_power_sgd_takes_two_rounds_of_its_group():
    for graph in rewritten(matrices(), Encoded(COLLECTIVE, (("w", "PowerSGD(rank=1)"),)), 2, 1):
        reductions = [n for n in ops(graph, "CollectiveReduceV2") if "group_" in n]
        layers = sorted(re.search(r"layer_(\d+)", name)[1] for name in reductions)
        assert len(layers) == 2  # one buffer for both matrices' P, one for their Q
        assert int(layers[1]) == int(layers[0]) + 1


def test_servers_get_encoded_messages_and_decode_them():
    graphs = rewritten(captured(num_dense=4, sparse=False), Encoded(SERVERS, (("w", "FP16"),)), 2, 2)
    pushed = 0
    for graph in graphs:
        for name in ops(graph, "AutodistSend"):
            if "push_gradient" in name:
                pushed += 1
                assert [tf.as_dtype(t).name for t in graph.nodes[name].attr["T"].list.type] == ["float16"]
    assert pushed == 4  # each variable's gradient comes from one other worker, once for both replicas


def test_sparse_values_are_cast_and_their_rows_are_not():
    for graph in rewritten(captured(num_dense=1), Encoded(SERVERS, (("table", "FP16"),)), 2, 1):
        for name in ops(graph, "AutodistSend"):
            if "push_gradient" in name and len(graph.nodes[name].attr["T"].list.type) == 2:
                types = [tf.as_dtype(t).name for t in graph.nodes[name].attr["T"].list.type]
                assert types == ["float16", "int32"]
                break
        else:
            assert ops(graph, "ResourceScatterSub")  # here the table lives


@pytest.mark.parametrize("builder", [SERVERS, COLLECTIVE])
def test_residuals_stay_on_their_worker(builder):
    for graph in rewritten(captured(sparse=False), Encoded(builder, (("w", "OneBit"),)), 2, 1):
        handles = [n for n in ops(graph, "VarHandleOp") if "residual" in n]
        assert len(handles) == 3
        assert {graph.nodes[n].device for n in handles} == {graph.layout.main_device}
        assert len(graph.initializers) == 3
        assert {graph.nodes[n].input[0] for n in graph.initializers} == set(handles)
        assert {graph.nodes[n].input[0] for n in graph.effects if graph.nodes[n].op == "AssignVariableOp"} >= set(
            handles
        )


@dataclass(frozen=True)
class Idle(Encoded):
    """The same, with a last host that only serves."""

    name: ClassVar[str] = "Idle"

    def build(self, graph, spec):
        plan = super().build(graph, spec)
        replicas = tuple(name for name in plan.graph.replicas if not name.startswith(f"{spec.hosts[-1].name}:"))
        return dataclasses.replace(plan, graph=dataclasses.replace(plan.graph, replicas=replicas))


@pytest.mark.parametrize("compressor", ["FP16", "ErrorFeedback(TopK)", "OneBit", "RandomK"])
def test_a_host_that_only_serves_decodes(compressor):
    graphs = rewritten(captured(num_dense=4, sparse=False), Idle(SERVERS, (("w", compressor),)), 2, 2)
    pushes = [sum("push_gradient" in n for n in ops(importable(graph), "AutodistSend")) for graph in graphs]
    messages = sum(p.variable == "w0" for p in rewritten_points(compressor))
    assert pushes == [2 * messages, 0]  # half of the variables live on either host
    assert all(len(ops(graph, "AssignSubVariableOp")) == 2 for graph in graphs)


def rewritten_points(compressor):
    return rewritten(captured(sparse=False), Encoded(COLLECTIVE, (("w", compressor),)), 2, 1)[0].points


def test_points_are_alike_on_all_workers():
    plan = Encoded(COLLECTIVE, (("w0", "OneBit"), ("w1", "RandomK"), ("w2", "FP16")))
    first, second = rewritten(captured(), plan, 2, 2)
    described = [
        [dataclasses.replace(p, local=(), parts=()) for p in graph.points if p.variable] for graph in (first, second)
    ]
    assert described[0] == described[1]
    assert any(p.even and p.combine is Combine.CONCAT for p in first.points)


# Several workers ----------------------------------------------------------------------------------------------------


def gradients_are_the_input():
    """A step whose gradient is the mean of its input; what is not finite is left out of the update."""
    w = tf.Variable(tf.zeros([6, 5]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(w * x, [1, 2]))
        (gradient,) = tape.gradient(loss, [w])
        w.assign_sub(tf.where(tf.math.is_finite(gradient), gradient, 0.0))

    return step


def together(compressor, workers=2):
    spec = tf.TensorSpec([None, 6, 5])
    return EncodedWorkers(gradients_are_the_input(), spec, Encoded(COLLECTIVE, (("w", compressor),)), workers)


EVERY = ["FP16", "BF16", "TopK(ratio=0.2)", "RandomK(ratio=0.3)", "PowerSGD(rank=1)"]
WITH_FEEDBACK = ["OneBit", *(f"ErrorFeedback({inner})" for inner in EVERY)]


@pytest.mark.parametrize("compressor", WITH_FEEDBACK)
def test_a_steps_loss_is_the_next_steps_gain(compressor):
    """A constant gradient gets there: the variable moves by it on average."""
    run = together(compressor)
    x = np.random.default_rng(0).normal(size=(2, 1, 6, 5)).astype(np.float32)
    for _ in range(60):
        run.step(x)
    np.testing.assert_array_equal(run.value("w", 0), run.value("w", 1))
    np.testing.assert_allclose(run.value("w") / -60, x.mean((0, 1)), atol=0.12 * np.abs(x).max())


@pytest.mark.parametrize("compressor", WITH_FEEDBACK)
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_state_survives_a_gradient_that_is_not_finite(compressor, bad):
    run = together(compressor)
    x = np.random.default_rng(0).normal(size=(2, 1, 6, 5)).astype(np.float32)
    run.step(x)
    broken = x.copy()
    broken[1, 0, 2, 3] = bad
    run.step(broken)
    before = run.value("w")
    for _ in range(60):
        run.step(x)
    assert np.isfinite(before).all()
    np.testing.assert_allclose((run.value("w") - before) / -60, x.mean((0, 1)), atol=0.12 * np.abs(x).max())


@pytest.mark.parametrize(("compressor", "rounding"), [("FP16", 2.0**-11), ("BF16", 2.0**-8)])
def test_casts_train_as_one_device_does_up_to_rounding(compressor, rounding):
    run = together(compressor, workers=3)
    xs = np.random.default_rng(0).normal(size=(5, 3, 1, 6, 5)).astype(np.float32)
    for x in xs:
        run.step(x)
    bound = 4 * rounding * np.abs(xs).sum((0, 1, 2))
    difference = np.abs(run.value("w") + xs.mean((1, 2)).sum(0))
    assert (difference <= bound).all()
    assert difference.max() > 1e-6


def test_original_defect_compression_that_saves_nothing_and_feedback_that_nothing_reads():
    """In the AutoDist of 2021 `HorovodCompressor` cast to float32, and the residual of the `EF` one was never read."""
    for graph in rewritten(captured(num_dense=1, sparse=False), Encoded(COLLECTIVE, (("w", "FP16"),)), 2, 1):
        assert attributes(graph, "CollectiveReduceV2", "T") == ["float16"]
    tiny = np.full((2, 1, 6, 5), 1e-8, np.float32)  # vanishes in float16, whose smallest number is 6e-8
    without, fed_back = together("FP16"), together("ErrorFeedback(FP16)")
    for _ in range(40):
        without.step(tiny)
        fed_back.step(tiny)
    assert not without.value("w").any()
    np.testing.assert_allclose(fed_back.value("w"), -40e-8, atol=8e-8)
