"""Trains a small model under strategies with compressors, each in a scope of its own: `train.py DIRECTORY PLAN...`.

A plan is `builder|compressor|shape|steps`. Each rank writes what it has and what it has sent into the directory.
"""

import dataclasses
import pathlib
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

import autodist
from autodist.strategies import Strategy, StrategyBuilder, get
from autodist.testing import sent_bytes, wire_bytes

RATE = 0.05
BATCH = 8


@dataclass(frozen=True)
class Compressed(StrategyBuilder):
    """Another builder's strategy, with a compressor for every variable but those that are refused one."""

    name: ClassVar[str] = "Compressed"
    builder: str = "PSLoadBalancing"
    compressor: str = ""
    only: str = ""

    def build(self, graph, spec):
        plan = get(self.builder).build(graph, spec)
        return Strategy(plan.graph, tuple(map(self._encoded, plan.variables)), str(self))

    def _encoded(self, config):
        if not self.compressor or (self.only and self.only not in config.variable):
            return config
        shards = tuple(dataclasses.replace(shard, compressor=self.compressor) for shard in config.shards)
        return dataclasses.replace(config, shards=shards)


def data(shape, steps):
    """Batches of a linear regression."""
    random = np.random.default_rng(0)
    truth = random.normal(size=shape).astype(np.float32)
    for _ in range(steps):
        x = random.normal(size=(BATCH, shape[0])).astype(np.float32) / np.float32(np.sqrt(shape[0]))
        yield x, x @ truth + 1


def train(builder, compressor, shape, steps):
    """Losses, variables, and bytes sent per step."""
    with autodist.AutoDist(strategy=Compressed(builder, compressor)).scope() as ad:
        w, b = tf.Variable(tf.zeros(shape), name="w"), tf.Variable(tf.zeros(shape[1:]), name="b")

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.reduce_mean(tf.square(x @ w + b - y), 0))
            for variable, gradient in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                variable.assign_sub(RATE * gradient)
            return loss

        losses, before = [], {}
        for number, (x, y) in enumerate(data(shape, steps)):
            if number == steps // 2:
                before = wire_bytes()
            losses.append(float(step(x, y)))
        sent = sum(sent_bytes(before, wire_bytes()).values()) / (steps - steps // 2)
        return {"losses": losses, "w": w.numpy(), "b": b.numpy(), "sent": sent}


def main():
    directory = pathlib.Path(sys.argv[1])
    for number, plan in enumerate(sys.argv[2:]):
        builder, compressor, shape, steps = plan.split("|")
        print(f"plan {plan}", flush=True)
        found = train(builder, compressor, tuple(map(int, shape.split("x"))), int(steps))
        import os

        np.savez(directory / f"{number}_{os.environ.get('AUTODIST_RANK', 0)}.npz", **found)
        print(f"sent {found['sent']:.0f} loss {found['losses'][0]:.4f} {found['losses'][-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
