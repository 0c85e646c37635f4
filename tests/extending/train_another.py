"""Trains with what another package brings, then explains, verifies and searches with it; writes what it finds."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Each collective of the carrier holds a thread of TensorFlow while it waits. With a thread for each core, all of one
# worker could wait for collectives whose turn on the other worker comes after those that its own threads wait for.
os.environ["TF_NUM_INTEROP_THREADS"] = "16"

import numpy as np
import tensorflow as tf

import autodist
from autodist.strategies.synchronizers import words_of

STEPS, ROWS = 4, 12


def train(scope):
    """A step with a small network, momentum, and outputs for each example."""
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(STEPS * ROWS, width)).astype(np.float32) for width in (6, 1))
    with scope():
        hidden = tf.Variable(random.normal(size=(6, 4)).astype(np.float32), name="hidden")
        last = tf.Variable(random.normal(size=(4, 1)).astype(np.float32), name="last")
        momentum = tf.Variable(np.zeros((6, 4), np.float32), name="momentum")

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                found = tf.tanh(x @ hidden) @ last
                loss = tf.reduce_mean(tf.square(found - y))
            of_hidden, of_last = tape.gradient(loss, [hidden, last])
            momentum.assign(0.9 * momentum + of_hidden)
            hidden.assign_sub(0.1 * momentum)
            last.assign_sub(0.1 * of_last)
            return loss, found

        told = [step(x[k : k + ROWS], y[k : k + ROWS]) for k in range(0, len(x), ROWS)]
        values = {"hidden": hidden, "last": last, "momentum": momentum}
        found = {name: variable.numpy() for name, variable in values.items()}
    return found | {"losses": np.array([float(loss) for loss, _ in told]), "found": np.asarray(told[-1][1])}


def asked():
    """What explanation, verification and search say of it, for a described graph."""
    from autodist import carriers, strategies
    from autodist.graph import Gradient, Role, TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.search import Catalogue, RandomSearcher, Rule, ScoringBudget, Space, rank_offline, recognize
    from autodist.simulator import Domain, EventSimulator

    def variable(name, **gradient):
        return Variable(name, f"{name}/h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(**gradient),))

    dense = TrainingGraph(None, (variable("w", dense="g"), variable("v", dense="g2")), (), (), ())
    sparse = TrainingGraph(None, (variable("w", values="g", indices="i"),), (), (), ())
    spec = ResourceSpec.local(workers=4)
    wide = strategies.get("Wide").build(dense, spec)
    unfit = strategies.get("Wide").build(sparse, spec)
    known = strategies.Strategy.from_json(wide.to_json())
    told = strategies.explain(known, dense, spec)
    space = Space(Domain.of(dense, spec), [Rule.fix("w=widesum"), Rule.fix("*=sockets")])
    catalogue = Catalogue.of(space)
    ranking = rank_offline(RandomSearcher(space, catalogue), EventSimulator(), ScoringBudget(proposals=50))
    back, _ = recognize([ranking.best.strategy], space, catalogue)
    return {
        "installed": carriers.installed_communicators(),
        "survives": known == wide,
        "rows": [dataclasses.asdict(row) for row in told.rows],
        "problems": [str(problem) for problem in told.problems],
        "sparse": [str(problem) for problem in strategies.verify(unfit, sparse, spec)],
        "found": [strategy.to_json() for strategy in (ranking.best.strategy, back.strategy(0, space, catalogue))],
        "predicted_s": ranking.best.predicted_s,
        "obeyed": sorted({choice.communicator for unit in space.units for choice in unit.choices}),
        "words": sorted(word for unit in space.units[-1:] for choice in unit.choices for word in words_of(choice)),
    }


if __name__ == "__main__":
    out = sys.argv[1]
    rank = os.environ.get("RANK", "0")
    np.savez(f"{out}{rank}.npz", **train(autodist.scope))
    if rank == "0":
        with open(f"{out}asked.json", "w", encoding="utf-8") as file:
            json.dump(asked(), file)
