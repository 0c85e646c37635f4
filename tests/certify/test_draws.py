"""What is drawn for `test_drawn.py` has everything that the representation can say."""

import collections
import random

import keras
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduceSynchronizer, BroadcastSynchronizer, PSSynchronizer

from .drawn import FAMILIES, Drawn
from .drawn.model import first_layers, last_layers

SPEC = ResourceSpec.local(workers=2, cpus=2)
SEEDS = 40


@pytest.fixture(scope="module")
def graph():
    model = keras.Sequential([*first_layers(random.Random(3), "dense"), *last_layers(random.Random(5))])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return capture(step, [tf.TensorSpec([8, 6]), tf.TensorSpec([8, 1])], VariableNames()).graph


def aspects(strategy):
    """What a strategy says, in words."""
    yield f"graph over {strategy.graph.communicator}"
    yield f"{len(strategy.graph.replicas)} replicas"
    for config in strategy.variables:
        if config.partition is not None:
            yield f"partition of {sum(parts != 1 for parts in config.partition)} dims"
            yield from ("uneven parts" for parts in config.partition if isinstance(parts, tuple))
            yield f"{len({shard.synchronizer.type for shard in config.shards})} kinds of shards"
        for shard in config.shards:
            synchronizer = shard.synchronizer
            yield f"compressor {shard.compressor}"
            if isinstance(synchronizer, PSSynchronizer):
                yield f"server on {synchronizer.destination}"
                yield f"proxy {synchronizer.local_proxy}"
                yield f"stations {len(synchronizer.transfer)}"
            if isinstance(synchronizer, AllReduceSynchronizer):
                yield f"all-reduce over {synchronizer.communicator}"
            if isinstance(synchronizer, BroadcastSynchronizer):
                yield f"broadcast over {synchronizer.communicator}"


@pytest.mark.horovod
def test_draws_have_every_aspect(graph):
    counts = collections.Counter(
        aspect
        for family in FAMILIES
        for seed in range(SEEDS)
        for aspect in set(aspects(Drawn(seed=seed, family=family).build(graph, SPEC)))
    )
    servers = {f"server on {device.name}" for device in SPEC.devices}
    carried = {f"all-reduce over {c}" for c in ("horovod", "collective", "tcp")}
    wanted = servers | carried | {
        "graph over horovod", "graph over tcp", "graph over collective",
        "3 replicas", "4 replicas",
        "partition of 1 dims", "partition of 2 dims", "uneven parts", "1 kinds of shards", "2 kinds of shards",
        "compressor None", "compressor SufficientFactors",
        "proxy True", "proxy False", "stations 0", "stations 2",
        "broadcast over horovod", "broadcast over collective", "broadcast over tcp",
    }  # fmt: skip
    assert {aspect for aspect in wanted if counts[aspect] < 3} == set()
