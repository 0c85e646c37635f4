"""Profiles that are measured: of what TensorFlow makes of a graph, by hand and as it is."""

import dataclasses
from functools import cache
from types import SimpleNamespace

import pytest

from autodist.coordination import Worker, WorkerEnvironment
from autodist.cost.operations import DEVICE_FLOPS
from autodist.graph import NodeTime, StepTrace, TraceSubject, VariableNames, capture, node_of
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime.data import Convention, flatten
from autodist.runtime.measuring import ProfileOrder, StepProfiler
from autodist.simulator import Domain, Profile, tabulate
from autodist.simulator.formulas._hosts_work import rebuilding_s
from autodist.strategies import get, in_backward_order
from tests.certify.registry import models

SUBJECT = TraceSubject("a processor", 32, ((32, 8),))


def trace(**rows):
    """A step of 1 s from rows of op, start and end."""
    nodes = {name: NodeTime(op, start_s, end_s, end_s - start_s) for name, (op, start_s, end_s) in rows.items()}
    return StepTrace(SUBJECT, 1.0, 1.5, nodes)


@pytest.fixture(scope="module")
def captured():
    """A product with a bias and what is positive of it, and a second product."""
    import tensorflow as tf

    first, bias, second = (
        tf.Variable(tf.zeros(shape), name=name)
        for name, shape in (("first", (8, 64)), ("bias", (64,)), ("second", (64, 2)))
    )

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, first, name="one"), bias, name="two"), name="three")
            loss = tf.reduce_mean(tf.matmul(hidden, second, name="four"))
        weights = [first, bias, second]
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec((32, 8))], VariableNames()).graph


def mark(graph, variable):
    return node_of(graph.variable(variable).gradients[0].dense)


def test_a_fused_operation_has_the_time_of_what_it_was_made_of(captured):
    rows = {
        "three": ("_FusedMatMul", 0.1, 0.3),
        "four": ("_MklMatMul", 0.4, 0.5),
        mark(captured, "second"): ("Identity", 0.6, 0.61),
        mark(captured, "bias"): ("Identity", 0.7, 0.71),
        mark(captured, "first"): ("Identity", 0.9, 0.91),
    }
    profile = Profile.measured(captured, trace(**rows))
    assert profile.needed_s == {"first": 0.1, "bias": 0.1, "second": 0.4}
    assert profile.ready_s == {"second": 0.61, "bias": 0.71, "first": 0.91}
    assert (profile.step_s, profile.processor_s, profile.batch_size) == (1.0, 1.5, 32)
    assert (profile.source, profile.device) == ("measured", "a processor")
    assert profile.op_s["MatMul"] == pytest.approx(0.2 + 0.1), "in the words of the graph"
    by_size = 0.2 * 512 / (512 + 64)
    assert profile.variable_s["first"] == pytest.approx(by_size + 0.01), "and what has become of its gradient's product"
    assert profile.variable_s["bias"] == pytest.approx(0.2 - by_size, abs=0.01)
    assert 0.1 < profile.coverage < 0.9


def test_a_gradient_without_a_time_is_ready_after_what_it_is_made_of(captured):
    analysis = captured.analysis
    [maker] = analysis.sources[mark(captured, "first")]
    profile = Profile.measured(captured, trace(**{maker: ("MatMul", 0.2, 0.8)}))
    assert profile.ready_s["first"] == 0.8
    assert profile.needed_s["second"] <= 1.0


def test_what_was_added_belongs_to_the_node_with_its_name(captured):
    rows = {
        "Func/four/body/_1/input/_2": ("Identity", 0.2, 0.25),
        "four/body/_1/while/MatMul": ("MatMul", 0.3, 0.6),
        "ArithmeticOptimizer/FoldTransposeIntoMatMul_one": ("MatMul", 0.1, 0.15),
        "three": ("Relu", 0.15, 0.2),
        "ConstantFolding/nowhere-matshapes-1": ("Const", 0.0, 0.9),
    }
    profile = Profile.measured(captured, trace(**rows))
    assert profile.needed_s["first"] == 0.1
    assert profile.needed_s["second"] == pytest.approx(0.2)
    assert profile.variable_s["second"] == pytest.approx(0.35)


def test_a_fast_device_makes_gradients_of_factors_as_fast_as_its_own(captured):
    """It was thought to take as long for them as a device of which nothing is known."""
    products = sum(2 * 32 * size for size in (8 * 64, 64 * 2)) + 32 * 2 * (8 * 64 + 2 * 64 * 2)
    two = ResourceSpec(tuple(Host(name, name) for name in "ab"))
    strategy = get("SFB").build(captured, two)

    def rebuilding(op_s):
        profile = dataclasses.replace(Profile.estimate(captured, 32), source="measured", op_s=op_s)
        domain = Domain.of(captured, two, batch_size=32, profile=profile)
        return domain.flops_per_s, rebuilding_s(tabulate([strategy], domain), domain, 1)[0]

    unknown, takes_s = rebuilding({})
    assert unknown == DEVICE_FLOPS
    fast, takes_less_s = rebuilding({"MatMul": products / (20 * DEVICE_FLOPS)})
    assert fast == pytest.approx(20 * DEVICE_FLOPS, rel=0.2)
    assert takes_less_s == pytest.approx(takes_s * unknown / fast)
    assert takes_s > 0
    assert rebuilding({"MatMul": 1.0})[0] == rebuilding({"MatMul": 2.0})[0] == 5e10, "what calls take is no speed"


@cache
def measured(name):
    training = models.get(name).build("tiny")
    arguments = flatten(training.batch(0), {})
    step = capture(arguments.bind(training.step), arguments.specs(), VariableNames())
    worker, spec = Worker(WorkerEnvironment()), ResourceSpec.local()
    before = [variable.numpy() for variable in training.variables]
    profiler = StepProfiler(worker, spec, Convention(), step, arguments, local=False)
    made = profiler.run(ProfileOrder(steps=4, longest_s=20.0), f"profile_{name}")
    unchanged = all((old == new.numpy()).all() for old, new in zip(before, training.variables, strict=True))
    return SimpleNamespace(
        graph=step.graph, trace=made, profile=Profile.measured(step.graph, made), unchanged=unchanged
    )


NAMES = [
    "vgg", "lstm", "ncf_sparse",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert_3", "resnet", "transformer")),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_of_a_model_is_needed_before_its_gradient_is_ready(name):
    found = measured(name)
    profile = found.profile
    assert found.unchanged
    names = {variable.name for variable in found.graph.trainable}
    assert profile.needed_s.keys() == profile.ready_s.keys() == profile.variable_s.keys() == names
    for variable in names:
        assert 0 <= profile.needed_s[variable] <= profile.ready_s[variable] <= profile.step_s
        assert profile.ready_s[variable] > 0
        assert profile.variable_s[variable] > 0
    assert max(profile.ready_s.values()) > 0.5 * profile.step_s


@pytest.mark.parametrize("name", NAMES)
def test_most_operations_of_a_model_are_seen(name):
    found = measured(name)
    assert found.profile.coverage > 0.65
    marks = {node_of(t) for v in found.graph.trainable for g in v.gradients for t in (g.dense, g.values) if t}
    assert marks <= found.trace.nodes.keys(), "every gradient itself"


@pytest.mark.slow  # on a busy machine an interruption is longer than these steps
@pytest.mark.parametrize("name", ["vgg", "resnet"])
def test_gradients_are_ready_in_about_the_order_of_the_backward_pass(name):
    found = measured(name)
    ready = [found.profile.ready_s[v.name] for v in in_backward_order(found.graph)]
    pairs = [(a, b) for k, a in enumerate(ready) for b in ready[k + 1 :]]
    assert sum(a < b for a, b in pairs) > 0.8 * len(pairs)


def test_a_domain_tells_what_it_goes_by():
    found = measured("vgg")
    spec = ResourceSpec.local()
    domain = Domain.of(found.graph, spec, batch_size=found.profile.batch_size, profile=found.profile)
    assert domain.profile.source == "measured"
    assert domain.compute_s == pytest.approx(found.profile.step_s)
    assert Domain.of(found.graph, spec).profile.source == "estimated"
