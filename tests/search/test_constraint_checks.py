"""Rules: those that say nothing are told, strategies obey or don't, and the best is one that does."""

import pytest

from autodist.errors import UsageError
from autodist.search import Choice, Failure, Measurement, Rule, Space, Trial, best_of, obeys
from autodist.simulator import Domain
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
)
from autodist.strategies.synchronizers import words_of
from tests.strategies.examples import ALL, graph, spec, variable

G = graph(variable("embeddings/word", (512, 64), sparse=True), variable("layer_0/kernel", (512, 64)))


def space(*rules):
    return Space(Domain.of(G, spec("a", "b")), rules, communicators=ALL)


def test_rules_that_name_nothing_are_told_all_at_once():
    rules = Rule.fix("embeding*=ps"), Rule.fix("layer_0/kernel=servers"), Rule.exclude("partitions")
    with pytest.raises(UsageError) as caught:
        space(*rules)
    assert caught.value.message.splitlines() == [
        "`--fix embeding*=ps`: no variable is called `embeding*`, near are `embeddings/word`",
        "`--fix layer_0/kernel=servers`: no choice is called `servers`",
        "`--exclude partitions`: no choice is called `partitions`, "
        "near are `partition`, `partition=4x1`, `partition=2x1`",
    ]
    assert "choices are allreduce, async, broadcast, collective, compressor, " in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_partition_that_nobody_offers_is_told_with_those_that_are():
    with pytest.raises(UsageError, match=r"no choice is called `partition=3x1`, near are .*`partition=2x1`"):
        space(Rule.exclude("partition=3x1"))


@pytest.mark.parametrize("word", ["compressor", "staleness", "transfer", "partition", "horovod"])
def test_to_forbid_what_is_not_searched_is_no_mistake(word):
    assert space(Rule.exclude(word)).units


PS = PSSynchronizer("a:CPU:0", local_proxy=True, transfer=("b:CPU:0",))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (VariableConfig.whole("w", PS), {"ps", "whole", "transfer", "proxy"}),
        (
            VariableConfig.whole("w", PSSynchronizer("a:CPU:0", staleness=3)),
            {"ps", "whole", "staleness", "staleness=3"},
        ),
        (
            VariableConfig("w", (ShardConfig(PS),) * 2, (2, 1)),
            {"ps", "partition", "partition=2x1", "transfer", "proxy"},
        ),
        (VariableConfig.whole("w", BroadcastSynchronizer("horovod")), {"broadcast", "whole", "horovod"}),
        (
            VariableConfig.whole("w", AllReduceSynchronizer(3), "FP16"),
            {"allreduce", "whole", "collective", "compressor", "fp16"},
        ),
    ],
)
def test_what_a_strategy_chooses_can_be_pinned_and_forbidden(config, words):
    strategy = Strategy(GraphConfig((), "tcp"), (config,))
    known = words | {"ps", "allreduce", "broadcast", "horovod", "collective", "partition", "fp16", "async"}
    for word in known:
        assert obeys(strategy, [Rule("*", word, True)]) is (word in words)
        assert obeys(strategy, [Rule("w", word, False)]) is (word not in words)
        assert obeys(strategy, [Rule("v", word, False)])


def test_servers_that_are_reached_by_streams_are_forbidden_with_them():
    strategy = Strategy(GraphConfig((), "tcp"), (VariableConfig.whole("w", PS),))
    assert not obeys(strategy, [Rule.exclude("tcp")])
    assert obeys(strategy, [Rule.fix("w=tcp"), Rule.fix("w=ps")])


def test_a_choice_is_called_what_its_config_is_called():
    assert words_of(Choice("PS", transfer=True, local_proxy=True)) == {"ps", "whole", "transfer", "proxy"}


def trial(number, synchronizer, step_s):
    strategy = Strategy(GraphConfig((), "tcp"), (VariableConfig.whole("w", synchronizer),))
    outcome = Failure("error", "no") if step_s is None else Measurement((step_s,))
    return Trial(number, strategy, outcome, "baseline me")


def test_the_fastest_obeys_so_far_as_any_does():
    trials = [trial(0, PS, 0.1), trial(1, AllReduceSynchronizer(0), 0.2), trial(2, BroadcastSynchronizer(), None)]
    assert best_of(trials).number == 0
    assert best_of(trials, [Rule.exclude("ps")]).number == 1
    assert best_of(trials, [Rule.fix("*=broadcast")]).number == 0, "nothing that was measured obeys"
    assert best_of(trials[2:]) is None
