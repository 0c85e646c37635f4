"""Trains a linear regression under strategies with compressors, each in a scope of its own.

`train.py DIRECTORY PLAN...`, where a plan is `builder|compressor|rows x columns|steps`. Each rank writes its losses,
its variables, and the bytes that it has sent per step.
"""

import dataclasses
import os
import pathlib
import sys
import time
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
    """Another builder's strategy, with one compressor for every variable."""

    name: ClassVar[str] = "Compressed"
    builder: str = "PSLoadBalancing"
    compressor: str = ""

    def build(self, graph, spec):
        plan = get(self.builder).build(graph, spec)
        return Strategy(plan.graph, tuple(map(self._encoded, plan.variables)), str(self))

    def _encoded(self, config):
        shards = tuple(dataclasses.replace(shard, compressor=self.compressor or None) for shard in config.shards)
        return dataclasses.replace(config, shards=shards)


def batches(shape, steps):
    """(x, y), the same for all workers, who share them."""
    random = np.random.default_rng(0)
    truth = random.normal(size=shape).astype(np.float32)
    for _ in range(steps):
        x = random.normal(size=(BATCH, shape[0])).astype(np.float32) / np.float32(np.sqrt(shape[0]))
        yield x, x @ truth + 1


class Meter:
    """Counts what is sent between two moments at which both ranks stand still."""

    def __init__(self, directory, rank):
        self._directory = directory
        self._rank = rank

    def read(self, moment):
        self._meet(f"{moment}_before")
        time.sleep(0.3)  # until what was sent is acknowledged
        counted = wire_bytes()
        self._meet(f"{moment}_after")
        return counted

    def _meet(self, moment):
        (self._directory / f"{moment}_{self._rank}").touch()
        deadline = time.monotonic() + 60
        while not (self._directory / f"{moment}_{1 - self._rank}").exists():
            assert time.monotonic() < deadline, "the other rank does not come"
            time.sleep(0.01)


def train(plan, shape, steps, meter):
    """Losses, variables, and bytes sent per step in the second half."""
    with autodist.AutoDist(strategy=plan).scope() as ad:
        w, b = tf.Variable(tf.zeros(shape), name="w"), tf.Variable(tf.zeros(shape[1:]), name="b")

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.reduce_mean(tf.square(x @ w + b - y), 0))
            for variable, gradient in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                variable.assign_sub(RATE * gradient)
            return loss

        losses, before = [], {}
        for number, (x, y) in enumerate(batches(shape, steps)):
            if number == steps // 2:
                before = meter.read("before")
            losses.append(float(step(x, y)))
        sent = sum(sent_bytes(before, meter.read("after")).values()) / (steps - steps // 2)
        return {"losses": losses, "w": w.numpy(), "b": b.numpy(), "sent": sent}


def main():
    directory, rank = pathlib.Path(sys.argv[1]), int(os.environ.get("RANK", "0"))
    for number, text in enumerate(sys.argv[2:]):
        print(f"plan {text}", flush=True)
        builder, compressor, shape, steps = text.split("|")
        rows, columns = map(int, shape.split("x"))
        meeting = directory / f"meeting_{number}"
        meeting.mkdir(exist_ok=True)
        found = train(Compressed(builder, compressor), (rows, columns), int(steps), Meter(meeting, rank))
        np.savez(directory / f"{number}_{rank}.npz", **found)


if __name__ == "__main__":
    main()
