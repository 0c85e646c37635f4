"""Strategies in training steps that train other variables than the one for which they were made."""

import logging

import pytest

from autodist.errors import StrategyError
from autodist.graph import Role
from autodist.strategies import (
    AllReduce,
    PSLoadBalancing,
    RetargetedWarning,
    Strategy,
    check,
    compose,
    fitting,
    for_step,
    tile_config,
)

from .examples import graph, spec, variable

HERE = spec("a", "b")
HEAD, BASE, OTHER = variable("head", (64, 8)), variable("base", (64, 64), order=1), variable("other", (8, 8), order=2)
FROZEN = variable("base", (64, 64), role=Role.CONSTANT)
BOTH = graph(HEAD, BASE)


def build(strategy, step, number=1):
    found = for_step(strategy, {v.name for v in step.trainable}, number, is_first=number == 0).build(step, HERE)
    check(found, step, HERE)
    return found


def configs(strategy):
    return {config.variable: config for config in strategy.variables}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("builder", [AllReduce(), PSLoadBalancing()])
def test_variables_that_a_step_does_not_train_are_left_out(builder, number, caplog):
    strategy = builder.build(BOTH, HERE)
    with caplog.at_level(logging.INFO, "autodist"):
        found = build(strategy, graph(HEAD, FROZEN), number)
    assert found.variables == (configs(strategy)["head"],)
    assert caplog.messages == [f"the strategy that is given has 1 variable that step {number} does not train"]


@pytest.mark.parametrize("builder", [AllReduce(communicator="tcp"), PSLoadBalancing(communicator="tcp")])
def test_auto_chooses_for_what_a_later_step_trains_besides(builder, caplog):
    strategy = builder.build(graph(HEAD, FROZEN), HERE)
    with caplog.at_level(logging.INFO, "autodist"):
        found = build(strategy, BOTH)
    assert configs(found)["head"] == strategy.variables[0], "as it is given"
    assert set(configs(found)) == {"head", "base"}
    assert set(found.carriers) <= {"tcp"}
    assert caplog.messages == [
        "the strategy that is given lacks 1 variable of step 1, as `base`: `auto` chooses for these"
    ]
    assert found.builder == f"{strategy.builder}, and 1 variable by auto"


def test_buffers_of_another_strategy_come_behind_those_that_are_there():
    """What `auto` chooses has numbers of its own, which begin with 0 as well."""
    head, both = (AllReduce(chunk_size=1).build(step, HERE) for step in (graph(HEAD), BOTH))
    base = configs(both)["base"].in_buffers_from(head.free_group)
    assert (base.synchronizer.group_number, head.free_group) == (1 + configs(both)["base"].synchronizer.group_number, 1)
    mixed = Strategy(head.graph, (*head.variables, base))
    check(mixed, BOTH, HERE)
    assert len(mixed.groups) == 2, "no buffer has both"
    served = configs(PSLoadBalancing().build(BOTH, HERE))["base"]
    assert served.in_buffers_from(7) == served


def test_what_fits_no_choice_of_auto_is_refused():
    """Gradients of all variables of a step are applied equally late, and `auto` takes none late."""
    strategy = AllReduce(communicator="tcp", staleness=1).build(graph(HEAD, FROZEN), HERE)
    with pytest.raises(StrategyError, match="staleness"):
        build(strategy, BOTH)


def test_what_is_left_out_need_not_fit_the_cluster(tmp_path):
    """A frozen variable of three parts can't be cut into as many parts as there are hosts here."""
    odd, three = variable("base", (3, 3), order=1), spec("c", "d", "e")
    step = graph(HEAD, odd)
    rest = AllReduce(communicator="tcp").build(step, three)
    strategy = Strategy(rest.graph, (configs(rest)["head"], tile_config(step, three, "base", 0)))
    strategy.save(tmp_path / "three.json")
    many = spec(*(f"h{n}" for n in range(4)))
    frozen = graph(HEAD, variable("base", (3, 3), role=Role.CONSTANT))
    with pytest.raises(StrategyError, match="can't be cut into 4 parts"):
        compose(tmp_path / "three.json", step, many)
    fitted = for_step(fitting(tmp_path / "three.json", many), {"head"}, 0, is_first=True)
    with pytest.warns(RetargetedWarning, match="is of another cluster"):
        found = fitted.build(frozen, many)
    check(found, frozen, many)
    assert set(configs(found)) == {"head"}


def test_a_tiled_variable_stays_tiled():
    tiled = tile_config(BOTH, HERE, "head", 0)
    strategy = AllReduce(communicator="tcp").build(graph(HEAD, FROZEN), HERE)
    found = build(Strategy(strategy.graph, (tiled,)), BOTH)
    assert configs(found)["head"] == tiled


def test_the_first_step_of_a_script_takes_no_strategy_of_another_model():
    lacking = AllReduce().build(graph(HEAD), HERE)
    with pytest.raises(StrategyError, match="`base`: config is missing"):
        build(lacking, BOTH, 0)
    unknown = AllReduce().build(graph(HEAD, BASE, OTHER), HERE)
    with pytest.raises(StrategyError, match=r"`other`: config is given.*the graph has no such variable"):
        build(unknown, BOTH, 0)
    assert set(configs(build(unknown, BOTH))) == {"head", "base"}, "of a later step, others may be of an earlier one"
    restarted = for_step(lacking, {"head", "base"}, 0, is_first=False)
    assert set(configs(restarted.build(BOTH, HERE))) == {"head", "base"}, "after a restart it may be a later one"


def test_what_is_made_for_a_step_or_for_any_stays_as_it_is(caplog):
    strategy = AllReduce().build(BOTH, HERE)
    assert for_step(strategy, {"head", "base"}, 1, is_first=False) is strategy
    assert for_step(AllReduce(), {"other"}, 1, is_first=False) == AllReduce()
    with caplog.at_level(logging.INFO, "autodist"):
        found = for_step(strategy, {"other"}, 1, is_first=False)
    assert found.name == "auto"
    assert caplog.messages == [
        "the strategy that is given has no variable of step 1: `auto` chooses for that step",
    ]


def test_a_tiling_that_a_step_does_not_allow_is_chosen_again():
    strategy = AllReduce(communicator="tcp").build(graph(HEAD, FROZEN), HERE)
    first = for_step(strategy, {"head", "base"}, 1, is_first=False)
    tiled = Strategy(strategy.graph, (tile_config(BOTH, HERE, "head", 0),))
    safer = first.safer_than(tiled)
    assert not safer.tiles
    assert safer.safer_than(tiled) is None
    assert first.safer_than(strategy) is None
