"""Alternate blocks of steps in which workers compare their batches, and in which they don't; the chief writes times.

Usage: comparison_training.py ROUNDS OUTPUT, by `autodist run`
"""

import contextlib
import json
import sys
from unittest import mock

import numpy as np
from blocks import block, block_in_scope, in_turns, make_step

import autodist
from autodist.kernels.replicate import _joins

_BATCH_SIZE, _FEATURES = 256, 1024  # 1 MB
_WIDTH, _LAYERS = 128, 3
_STEPS = 20


def compiled(is_compared, batch):
    """A scope and its step, compiled with the comparison or without."""
    ad = autodist.AutoDist()
    step = ad.function(make_step(_FEATURES, _WIDTH, _LAYERS))
    with ad.scope(), contextlib.ExitStack() as without:
        if not is_compared:
            without.enter_context(mock.patch.object(_joins, "compare_batches", return_value=None))
            mock.patch.object(ad._engine._execution.batches, "fingerprint", return_value=0).start()  # in all steps
        block(step, batch, _STEPS)
    return ad, step


def main():
    rounds, output = int(sys.argv[1]), sys.argv[2]
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _FEATURES), dtype=np.float32)
    ways = {"compared": compiled(True, batch), "not compared": compiled(False, batch)}
    times = in_turns(ways, lambda way: block_in_scope(*way, batch, _STEPS), rounds)
    if ways["compared"][0].rank == 0:
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
