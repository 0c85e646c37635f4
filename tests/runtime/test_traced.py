"""From TensorFlow's account of a traced step to the times of a step that nobody traces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.protobuf import config_pb2

from autodist.runtime.measuring._traced import node_times


def traced(*nodes):
    """A traced step from names, ops, starts and ends in microseconds."""
    metadata = config_pb2.RunMetadata()
    stats = metadata.step_stats.dev_stats.add()
    for name, op, start_us, end_us in nodes:
        length = 1000 * (end_us - start_us)
        label = f"step/{name} = {op}(step/x, step/y)"
        stats.node_stats.add(
            node_name=f"step/{name}", timeline_label=label, all_start_nanos=1000 * start_us, all_end_rel_nanos=length
        )
    return metadata


def us(seconds):
    return round(1e6 * seconds, 3)


def test_what_tracing_adds_to_each_node_is_taken_off():
    step = traced(("a", "Add", 0, 110), ("b", "MatMul", 110, 1120), ("c", "Add", 1120, 1230))
    times = node_times([step], 1200e-6, "step")
    assert [(name, time.op, us(time.start_s), us(time.end_s)) for name, time in times.items()] == [
        ("a", "Add", 0, 100), ("b", "MatMul", 100, 1100), ("c", "Add", 1100, 1200),
    ]  # fmt: skip


def test_a_pause_belongs_to_the_node_before_it_unless_another_one_runs():
    step = traced(("a", "Add", 0, 10), ("long", "MatMul", 30, 100), ("b", "Add", 40, 50), ("c", "Add", 60, 70))
    times = node_times([step], 100e-6, "step")
    assert {name: us(time.busy_s) for name, time in times.items()} == {"a": 30, "long": 70, "b": 10, "c": 10}


def test_nodes_in_loops_run_more_than_once():
    times = node_times([traced(("w", "Mul", 0, 10), ("x", "Add", 10, 20), ("w", "Mul", 20, 30))], 30e-6, "step")
    assert (us(times["w"].start_s), us(times["w"].end_s), us(times["w"].busy_s)) == (0, 30, 20)


def test_slow_steps_were_disturbed_and_do_not_count():
    quick, slow = (
        traced(("a", "Add", 0, 10), ("b", "Add", 10, 20)),
        traced(("a", "Add", 0, 990), ("b", "Add", 990, 1000)),
    )
    assert us(node_times([slow, quick, slow, quick], 20e-6, "step")["a"].busy_s) == 10


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 3_000)), min_size=1, max_size=30),
    st.integers(1, 20_000),
)
def test_all_that_runs_lies_within_the_step_and_nothing_vanishes(nodes, step_us):
    step = traced(*((f"n{number}", "Add", start, start + length) for number, (start, length) in enumerate(nodes)))
    times = node_times([step], 1e-6 * step_us, "step").values()
    assert min(time.start_s for time in times) == pytest.approx(0)
    assert max(time.end_s for time in times) == pytest.approx(1e-6 * step_us)
    assert all(time.start_s < time.end_s for time in times)
    assert all(time.busy_s == pytest.approx(time.end_s - time.start_s) for time in times)
