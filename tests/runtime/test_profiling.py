"""A step timed and traced on one device: in the test's own process, which is alone as a profiled replica is."""

import os
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import UsageError
from autodist.graph import StepTrace, VariableNames, capture
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime.data import Convention, flatten
from autodist.runtime.measuring import ProfileOrder, StepProfiler
from autodist.strategies import DEFAULT_BATCH_SIZE

ORDER = ProfileOrder(steps=4, longest_s=20.0)
WIDTHS = (256, 512, 512, 512, 512, 1)


def chain():
    """Dense layers one after another, with momenta that updates change."""
    random = np.random.default_rng(0)
    weights = [
        tf.Variable(random.standard_normal(shape, np.float32) / 20, name=f"w{number}")
        for number, shape in enumerate(pairwise(WIDTHS))
    ]
    momenta = [tf.Variable(tf.zeros(weight.shape), name=f"m{number}") for number, weight in enumerate(weights)]

    def step(x, y):
        with tf.GradientTape() as tape:
            h = x
            for weight in weights:
                h = tf.nn.relu(h @ weight)
            loss = tf.reduce_mean((h - y) ** 2)
        for weight, momentum, gradient in zip(weights, momenta, tape.gradient(loss, weights), strict=True):
            momentum.assign(0.9 * momentum + gradient)
            weight.assign_sub(0.1 * momentum)
        return loss

    return step, [*weights, *momenta]


def batch(size):
    return flatten((np.ones((size, WIDTHS[0]), np.float32), np.ones((size, 1), np.float32)), {})


def profiler(step, arguments, spec=None, local=False):
    captured = capture(arguments.bind(step), arguments.specs(), VariableNames())
    spec = ResourceSpec.local() if spec is None else spec
    return StepProfiler(Worker(WorkerEnvironment()), spec, Convention(), captured, arguments, local=local)


@pytest.fixture(scope="module")
def traced():
    step, variables = chain()
    before = [variable.numpy() for variable in variables]
    # On busy cores a thread may wait for its turn: of several profiles the one in which the step waited least.
    found = [profiler(step, batch(64)).run(ORDER, "profile_chain") for _ in range(3)]
    trace = max(found, key=lambda one: sum(time.busy_s for time in one.nodes.values()) / one.step_s)
    assert all(map(np.array_equal, before, (variable.numpy() for variable in variables))), "nothing was trained"
    return trace


def test_the_whole_step_is_seen_and_nothing_but_it(traced):
    assert {"gradient_tape/matmul/MatMul", "gradient_tape/matmul_4/MatMul"} <= traced.nodes.keys()
    assert 0 < max(time.end_s for time in traced.nodes.values()) <= traced.step_s * (1 + 1e-9)
    assert min(time.start_s for time in traced.nodes.values()) >= 0
    assert not {time.op for time in traced.nodes.values()} & {"AssignVariableOp", "AssignSubVariableOp"}, "no updates"


def test_gradients_have_times_of_their_own_and_products_take_the_most(traced):
    assert sum(name.startswith("autodist_gradient") for name in traced.nodes) == len(WIDTHS) - 1
    products = sum(time.busy_s for time in traced.nodes.values() if "MatMul" in time.op)
    assert products > 0.5 * sum(time.busy_s for time in traced.nodes.values())


def test_operations_take_about_the_processor_time_of_the_step(traced):
    # One after the other they last as long as the step; each may use all cores, and as many may run side by side.
    cores = os.cpu_count()
    busy_s = sum(time.busy_s for time in traced.nodes.values())
    assert 0.9 * traced.step_s < busy_s < (cores + 1) * traced.step_s
    assert 0 < traced.processor_s < 2 * cores * busy_s


def test_a_trace_travels_as_json(traced):
    again = StepTrace.from_json(traced.to_json())
    assert again.subject == traced.subject
    assert again.nodes.keys() == traced.nodes.keys()


@pytest.mark.parametrize(
    ("hosts", "local", "rows"),
    [((Host("a", "a"), Host("b", "b", cpus=2)), False, 4), ((Host("a", "a", cpus=2), Host("b", "b")), True, 5)],
)
def test_a_replica_has_its_part_of_the_batch(hosts, local, rows):
    step, _ = chain()
    subject = profiler(step, batch(10), ResourceSpec(hosts), local=local).subject
    assert subject.batch_size == rows
    assert subject.shapes == ((rows, WIDTHS[0]), (rows, 1))
    assert "threads, TensorFlow" in subject.device


def test_the_share_of_the_cores_that_threads_may_use_is_known(monkeypatch):
    step, _ = chain()
    spec = ResourceSpec((Host("a", "a"), Host("b", "b")))
    assert profiler(step, batch(10), spec).subject.cores_share == 1.0
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    assert profiler(step, batch(10), spec).subject.cores_share == 1 / len(os.sched_getaffinity(0))


def test_there_is_one_example_at_least():
    step, _ = chain()
    hosts = tuple(Host(name, name) for name in "abc")
    assert profiler(step, batch(2), ResourceSpec(hosts)).subject.batch_size == 1


def test_a_step_without_a_batch_has_that_which_is_supposed():
    w = tf.Variable([1.0, 2.0])

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w**2)
        w.assign_sub(tape.gradient(loss, w))

    subject = profiler(step, flatten((), {}), ResourceSpec((Host("a", "a"), Host("b", "b")))).subject
    assert (subject.batch_size, subject.shapes) == (DEFAULT_BATCH_SIZE // 2, ())


def test_gpus_are_refused():
    step, _ = chain()
    with pytest.raises(UsageError, match="on GPUs, profiles are made on CPUs only"):
        profiler(step, batch(4), ResourceSpec((Host("a", "a", gpus=(0,)),))).run(ORDER, "profile_gpu")


def test_impossible_orders_are_refused():
    for steps, longest_s in ((0, 1.0), (1, 0.0), (1, float("nan"))):
        with pytest.raises(UsageError, match="allowed: 1 or more, above 0"):
            ProfileOrder(steps, longest_s)
