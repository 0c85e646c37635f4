"""What stored trials cost, and which is the best by that."""

import json

import pytest

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Failure, Measurement, Trial, TrialStore
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, VariableConfig

ONCE = "autodist: the best was not measured again; the fastest of many was also lucky, so its time is too short\n"


def on(*hosts):
    config = VariableConfig.whole("w", PSSynchronizer(f"{hosts[0]}:CPU:0"))
    return Strategy(GraphConfig(tuple(f"{host}:CPU:0" for host in hosts), "tcp"), (config,))


TRIALS = [
    Trial(0, on("a", "b"), Measurement((3.6,)), "baseline PS"),
    Trial(1, on("a"), Measurement((4.5,)), "random"),
    Trial(2, on("a", "b"), Failure("memory", "too much"), "random"),
]


@pytest.fixture
def store(shell):
    return lambda price: _stored(shell.directory / "runs" / "trials.db", price)


def _stored(path, price):
    spec = ResourceSpec((Host("a", "a", price_per_hour=price), Host("b", "b", price_per_hour=price)))
    with TrialStore(path) as opened:
        study = opened.study(b"graph", "f1", spec, 50, "train.py")
        for trial in TRIALS:
            opened.add(study, trial)


def test_trials_show_what_they_cost(inside, store):
    store(1.0)
    listed = json.loads(inside("trials", "--json").stdout)["trials"]
    assert [trial["cost_per_1000_steps"] for trial in listed] == pytest.approx([2.0, 1.25, None])
    listed = json.loads(inside("trials", "--json", "--examples", "120").stdout)["trials"]
    assert [trial["cost_per_epoch"] for trial in listed] == pytest.approx([0.006, 0.00375, None])
    header, _, first, *_ = inside("trials", "--examples", "120").stdout.splitlines()
    assert "Cost/epoch" in header
    assert "0.006" in first.split()


def test_the_best_is_the_fastest_or_the_cheapest(inside, store):
    store(1.0)
    fastest, cheapest = inside("best"), inside("best", "--utility", "cost", "--examples", "50")
    assert Strategy.from_json(fastest.stdout) == TRIALS[0].strategy
    assert Strategy.from_json(cheapest.stdout) == TRIALS[1].strategy
    assert fastest.stderr == ONCE + "autodist: trial 0 by baseline PS: 3600 ms/step, 1,000 steps cost 2\n"
    assert cheapest.stderr == ONCE + "autodist: trial 1 by random: 4500 ms/step, epoch cost 0.00125\n"


def test_without_prices_there_are_no_costs(inside, store):
    store(None)
    assert "Cost" not in inside("trials").stdout
    assert inside("best").stderr == ONCE + "autodist: trial 0 by baseline PS: 3600 ms/step\n"
    refused = inside("best", "--utility", "cost")
    assert refused.returncode == 2
    assert "there is no price for `a`, `b`" in refused.stderr
    for command in ("trials", "best"):
        told = inside(command, "--examples", "50").stderr
        assert "warning: `--examples` shows no cost: there is no price for `a`, `b`" in " ".join(told.split())


def test_an_export_that_can_not_be_written_is_refused(inside, store):
    store(1.0)
    refused = inside("trials", "--export", "/proc/none/trials.zip")
    assert refused.returncode == 2
    assert "`/proc/none/trials.zip` can't be written: No such file or directory" in refused.stderr
    assert "`--export`" in refused.stderr


def test_an_import_says_what_was_new(inside, store):
    store(1.0)
    imported = [inside("trials", "--store", "other.db", "--import", "runs/trials.db").stdout for _ in range(2)]
    assert imported == ["study 1: train.py, 3 trials, 3 of them new\n", "study 1: train.py, 3 trials, 0 of them new\n"]
