"""How noisy trials are: what was put in is found again, and the card of a store says it."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autodist.resource_spec import ResourceSpec
from autodist.search import Failure, Measurement, Trial, TrialStore, noise_of
from autodist.strategies import AllReduceSynchronizer, GraphConfig, Strategy, VariableConfig

SPREAD, BETWEEN = 0.05, 0.15


def strategy(number):
    return Strategy(GraphConfig(("a:CPU:0",), "tcp"), (VariableConfig.whole("w", AllReduceSynchronizer(number)),))


def trials(count=60, rounds=3, speed=lambda time_s: 1.0):
    """Strategies, a reference among them after each ten measurements, each round an hour after the one before it."""
    draw = np.random.default_rng(3)
    true = np.exp(draw.normal(0, BETWEEN, count))
    taken = {number: [] for number in range(count)}
    for round_number in range(rounds):
        time_s = 1e6 + 3600 * round_number
        for place, number in enumerate(draw.permutation(count).tolist()):
            for one in [0, number] if place % 10 == 0 else [number]:
                time_s += 2
                step_s = float(true[one] * np.exp(draw.normal(0, SPREAD)) * speed(time_s))
                taken[one].append(Measurement((step_s,), round=len(taken[one]), ended_s=time_s))
    return [Trial(n, strategy(n), own[0], "random", again=tuple(own[1:])) for n, own in taken.items()]


def test_the_noise_that_was_put_in_is_found():
    found = noise_of([*trials(), Trial(99, strategy(99), Failure("error", "no"), "random")])
    assert (found.trials, found.failed, found.several) == (60, 1, 60)
    assert found.spread == pytest.approx(SPREAD, rel=0.25)
    assert found.per_minute == pytest.approx(30, rel=0.05), "without the time between sessions"
    assert found.agreement < found.ceiling < 1, "two measurements have the noise of both"
    true = np.random.default_rng(3).normal(0, BETWEEN, 60)
    seen = true + np.random.default_rng(4).normal(0, SPREAD, (500, 60))
    one, other = np.triu_indices(60, 1)
    right = float((np.sign(true[one] - true[other]) == np.sign(seen[:, one] - seen[:, other])).mean())
    assert found.ceiling == pytest.approx(right, abs=0.02)


def test_a_drift_that_the_reference_shows_is_no_noise():
    found = noise_of(trials(speed=lambda time_s: 1.0 + 0.5 * (time_s > 1e6 + 3000)))
    assert found.raw_spread > 3 * found.spread
    assert found.drift > 0.3
    once = noise_of(trials(rounds=1))
    assert math.isnan(once.ceiling)
    assert once.several <= 1
    assert noise_of([]).trials == 0
    alike = [Trial(n, strategy(n), Measurement((1 + n % 2,)), "", again=(Measurement((2 - n % 2,)),)) for n in range(6)]
    assert noise_of(alike).ceiling == 0.5, "nothing but noise"


def test_the_card_says_what_a_store_has(tmp_path):
    path = tmp_path / "trials.db"
    with TrialStore(path) as store:
        study = store.study(b"", "graph", ResourceSpec.local(2), 64, "train.py")
        store.add(study, *trials(20))
        store.add_floor(study, Measurement((0.25,)))
    card = Path(__file__).parents[2] / "scripts" / "trial-card"
    done = subprocess.run([sys.executable, card, path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| `train.py` | 2 |" in done.stdout
    assert "250 ms" in done.stdout
    assert "20 trials, 20 of them measured at least twice, 0 with tiles; 0 failed." in done.stdout
    assert "tcp 20" in done.stdout.split("Trials by carrier:")[1]
