"""Alternate blocks of steps of a ResNet, with synchronized statistics and by replica; the chief writes the times.

Usage: batch_norm_training.py ROUNDS OUTPUT, by `autodist run`
"""

import json
import sys
import time
from pathlib import Path

import tensorflow as tf
from blocks import in_turns

import autodist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import models

_STEPS = 3
_BATCH_SIZE = 16


def compiled(batch_norm):
    """A scope, its step and a batch; the step was run once."""
    ad = autodist.AutoDist(batch_norm=batch_norm)
    with ad.scope():
        training = models.get("resnet").build("small", norm="batch", batch_size=_BATCH_SIZE)
        step, batch = ad.function(training.step), training.batch(0)
        step(*batch)
    return ad, step, batch


def block(ad, step, batch):
    """Seconds per step."""
    with ad.scope():
        step(*batch)
        started = time.perf_counter()
        for _ in range(_STEPS):
            tf.nest.map_structure(lambda value: value.numpy(), step(*batch))
        return (time.perf_counter() - started) / _STEPS


def main():
    rounds, output = int(sys.argv[1]), Path(sys.argv[2])
    ways = {name: compiled(name) for name in ("replica", "synchronized")}
    times = in_turns(ways, lambda way: block(*way), rounds)
    if ways["replica"][0].rank == 0:
        output.write_text(json.dumps(times))


if __name__ == "__main__":
    main()
