"""What will run is planned before anything is changed: what can't be planned leaves the session as it was."""

import logging
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from certify.partitioned.strategies import InParts

import autodist
from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.runtime._step_plan import SessionPlan, Setting, plan_step
from autodist.strategies import PS, AllReduce, StrategyBuilder

from .programs import adam, assert_same, batches, everything, make_model, make_step

X = np.float32([[1.0, 2.0], [3.0, 4.0]])


@dataclass(frozen=True)
class OneDoesNotFit(StrategyBuilder):
    """Has three strategies tried, of which the second speaks of a variable that there isn't."""

    name: ClassVar[str] = "OneDoesNotFit"

    @property
    def tries(self):
        return 3

    def build(self, graph, spec):
        return AllReduce().build(graph, spec)

    def candidates(self, graph, spec):
        fits = self.build(graph, spec)
        first, *others = fits.variables
        return fits, replace(fits, variables=(replace(first, variable="nowhere"), *others)), PS().build(graph, spec)


def test_a_strategy_that_cannot_be_compiled_is_not_changed_to_and_training_goes_on(caplog):
    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            step = make_step(model, optimizer)
            losses = [float(step(*batch)) for batch in batches(24)]
        return losses, everything(model, optimizer)

    with caplog.at_level(logging.INFO, "autodist"):
        assert_same(program, strategy=OneDoesNotFit())
    [told] = [record.message for record in caplog.records if "training goes on as before" in record.message]
    assert "nowhere" in told
    assert "tried 2 strategies in the first 14 steps" in caplog.text


def test_replicas_that_get_no_example_are_told(caplog):
    def program(scope):
        with scope():
            model, optimizer = make_model(), adam()
            steps = make_step(model, optimizer), make_step(model, optimizer)
            [(x, y)] = batches(1)
            losses = [float(steps[0](x[:2], y[:2])), float(steps[1](x[:1], y[:1]))]
        return losses, everything(model, optimizer)

    with caplog.at_level(logging.INFO, "autodist"):
        assert_same(program)
    told = [line for line in caplog.messages if "for 2 replicas" in line]
    assert told == ["the batch has 1 example for 2 replicas: 1 of them computes nothing"]


def test_what_replicas_with_parts_of_weights_compute_whole_is_told(caplog):
    """Fewer examples than replicas are no matter for them: each has its part of the weights."""
    weight = tf.Variable(tf.ones([4, 6]), name="weight")

    @autodist.function
    def step(x, system):
        with tf.GradientTape() as tape:
            made = tf.reduce_mean(tf.linalg.inv(system + tf.reduce_sum(weight)), 0)
            loss = tf.reduce_mean((x @ weight @ made) ** 2)
        weight.assign_sub(1e-6 * tape.gradient(loss, weight))
        return loss

    with (
        caplog.at_level(logging.INFO, "autodist"),
        autodist.scope(ResourceSpec.local(cpus=2), strategy="Tiled(dims=('weight=1',))"),
    ):
        step(np.ones((1, 4), np.float32), np.eye(6, dtype=np.float32)[None])
    [told] = [line for line in caplog.messages if "computes whole, from gathered inputs: " in line]
    assert re.search(r"\d\d % of the step's work, most of it `.*\(MatMul at .*test_changes.py:\d+\)", told)
    assert "computes nothing" not in caplog.text


def test_a_step_that_cannot_be_compiled_leaves_the_session_as_it_was():
    def program(scope):
        with scope() as ad:
            model, optimizer = make_model(), adam()
            step, again = make_step(model, optimizer), make_step(model, optimizer)
            clipping = make_step(model, keras.optimizers.SGD(0.01, clipnorm=1.0))
            losses = [float(step(*batch)) for batch in batches(3)]
            if ad is not None:
                with pytest.raises(StrategyError, match="is partitioned in another step of the scope"):
                    clipping(*batches(1)[0])
            losses += [float(step(*batch)) for batch in batches(3)]
            losses += [float(again(*batch)) for batch in batches(3)]
        return losses, everything(model, optimizer)

    assert_same(program, strategy=InParts())


# --- plans alone


@pytest.fixture
def captured():
    """A step that trains two variables by a gradient, one that changes the first without, and one that reads it."""
    first, second = tf.Variable([[1.0], [1.0]], name="first"), tf.Variable([2.0], name="second")
    names = VariableNames()

    def trains(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ first + second))
        for variable, gradient in zip((first, second), tape.gradient(loss, (first, second)), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    def changes(x):
        first.assign(0.9 * first)
        return tf.reduce_sum(x)

    def reads(x):
        return x @ first

    specs = [tf.TensorSpec([None, 2])]
    return {step.__name__: capture(step, specs, names) for step in (trains, changes, reads)}


def setting(rank, world_size=2):
    return Setting(ResourceSpec.local(world_size, 1), rank, "container")


def planned(captured, *steps, rank=0, world_size=2):
    """The plan after steps, each given by its name and a builder, or none for what trains nothing."""
    plan, given = SessionPlan(), setting(rank, world_size)
    for name, builder in steps:
        graph = captured[name].graph
        strategy = (builder or AllReduce(communicator="tcp")).build(graph, given.spec)
        strategy = strategy if builder is not None else replace(strategy, variables=())
        plan = plan_step(plan, captured[name], strategy, f"{name}_{len(plan.steps)}", given)
    return plan


def test_a_plan_is_a_function_of_its_arguments(captured):
    for rank in range(2):
        one, two = (planned(captured, ("trains", PS(communicator="tcp")), rank=rank) for _ in range(2))
        assert [step.graph.graph_def for step in one.steps] == [step.graph.graph_def for step in two.steps]
        assert one.placements == two.placements
        assert one.steps[0].graph.layout.rank == rank


def test_a_step_that_reads_what_a_later_one_serves_is_planned_again(captured):
    before = planned(captured, ("reads", None))
    after = planned(captured, ("reads", None), ("trains", PS(communicator="tcp")))
    assert set(after.moved) == {"first"}
    assert [step.name for step in after.steps] == ["reads_0_1", "trains_1"]
    assert after.steps[0].graph.placement["first"] == after.steps[1].graph.placement["first"]
    assert [step.name for step in before.steps] == ["reads_0"]
    assert not before.placements.has_served


def test_what_earlier_steps_change_everywhere_is_not_given_to_a_server(captured):
    before = planned(captured, ("changes", None))
    with pytest.raises(StrategyError, match="an earlier step changes its own copy of `first` on every worker"):
        planned(captured, ("changes", None), ("trains", PS(communicator="tcp")))
    assert before == planned(captured, ("changes", None))
    alone = planned(captured, ("changes", None), ("trains", PS(communicator="tcp")), world_size=1)
    assert alone.steps[-1].written
