"""When gradients are ready, from the operations of a graph alone."""

from dataclasses import replace

import pytest

from autodist.errors import SimulatorError
from autodist.simulator import Profile
from tests.strategies.examples import graph, variable


@pytest.fixture(scope="module")
def captured():
    import tensorflow as tf

    from autodist.graph import VariableNames, capture

    first, second = (
        tf.Variable(tf.zeros(shape), name=name) for name, shape in (("first", (8, 64)), ("second", (64, 2)))
    )

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(x @ first) @ second)
        for weight, gradient in zip((first, second), tape.gradient(loss, [first, second]), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec((32, 8))], VariableNames()).graph


def test_flops_of_products_are_those_of_their_shapes(captured):
    from autodist.cost.operations import node_costs

    costs = node_costs(captured, 32)
    products = sorted(costs[name].flops for name, node in captured.analysis.nodes.items() if node.op == "MatMul")
    # x @ first and its weight gradient; h @ second, its weight gradient and its input gradient.
    assert products == sorted([2 * 32 * 8 * 64] * 2 + [2 * 32 * 64 * 2] * 3)


def test_flops_of_convolutions_are_those_of_their_filters():
    import tensorflow as tf

    from autodist.cost.operations import node_costs
    from autodist.graph import VariableNames, capture

    deep, one = tf.Variable(tf.zeros([3, 3, 3, 4, 8])), tf.Variable(tf.zeros([3, 3, 16, 1]))

    def step(volume, image):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.conv3d(volume, deep, [1] * 5, "SAME"))
            loss += tf.reduce_sum(tf.nn.depthwise_conv2d(image, one, [1] * 4, "SAME"))
        for weight, gradient in zip((deep, one), tape.gradient(loss, [deep, one]), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    graph = capture(step, [tf.TensorSpec((2, 5, 5, 5, 4)), tf.TensorSpec((2, 7, 7, 16))], VariableNames()).graph
    costs = node_costs(graph, 2)
    flops = {node.op: costs[name].flops for name, node in graph.analysis.nodes.items() if "onv" in node.op}
    in_space, by_channel = 2 * (2 * 5**3 * 8) * (27 * 4), 2 * (2 * 7**2 * 16) * 9
    assert flops["Conv3D"] == flops["Conv3DBackpropFilterV2"] == in_space
    assert flops["DepthwiseConv2dNative"] == flops["DepthwiseConv2dNativeBackpropFilter"] == by_channel


def test_gradients_are_ready_in_the_order_of_the_backward_pass(captured):
    profile = Profile.estimate(captured, 32)
    assert 0 <= profile.needed_s["first"] < profile.needed_s["second"] < profile.ready_s["second"]
    assert profile.ready_s["second"] < profile.ready_s["first"] == profile.step_s
    assert profile.source == "estimated"


def test_time_grows_with_the_batch(captured):
    profile = Profile.estimate(captured, 32)
    half = profile.scaled(16)
    assert half.step_s == pytest.approx(profile.step_s / 2)
    assert half.ready_s["second"] == pytest.approx(profile.ready_s["second"] / 2)


def test_a_profile_is_read_as_it_was_written(captured):
    profile = Profile.estimate(captured, 32)
    assert Profile.from_json(profile.to_json()) == profile


def test_a_step_that_waited_was_disturbed():
    measured = Profile(0.5, {}, {}, 32, "measured", processor_s=0.2)
    assert measured.is_disturbed
    assert not replace(measured, processor_s=0.3).is_disturbed
    assert not replace(measured, source="estimated").is_disturbed


def test_profiles_of_the_first_version_are_read():
    text = '{"step_s": 0.2, "needed_s": {"w": 0.0}, "ready_s": {"w": 0.2}, "batch_size": 8, "source": "measured"}'
    assert Profile.from_json(text) == Profile(0.2, {"w": 0.0}, {"w": 0.2}, 8, "measured")


def test_profiles_of_later_versions_are_refused_as_such():
    with pytest.raises(SimulatorError, match="a profile of version 99, this AutoDist reads up to 2"):
        Profile.from_json('{"version": 99, "joules": 3}')


def test_an_estimate_says_what_types_of_operations_and_variables_cost(captured):
    profile = Profile.estimate(captured, 32)
    assert sum(profile.op_s.values()) == pytest.approx(profile.step_s)
    assert next(iter(profile.op_s)) == "MatMul"
    assert profile.variable_s["first"] + profile.variable_s["second"] == pytest.approx(profile.op_s["MatMul"])
    assert profile.scaled(16).variable_s["first"] == pytest.approx(profile.variable_s["first"] / 2)


NO_TIMES = '"needed_s": {"w": "soon"}, "ready_s": {}, "batch_size": 1'


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"step_s": 1}', '{"nonsense": 1}', '{"version": "x"}', f'{{"step_s": 1, {NO_TIMES}}}', "3"],
)
def test_what_is_no_profile_is_refused(text):
    with pytest.raises(SimulatorError, match="not a profile"):
        Profile.from_json(text)


def test_a_graph_that_is_only_described_takes_no_time():
    assert Profile.estimate(graph(variable("w")), 8).ready_s == {"w": 0.0}
