"""Alternate blocks of steps with overlap and without; the chief writes the times.

Usage: overlap_training.py ROUNDS OUTPUT, by `autodist run`
"""

import json
import os
import sys

import numpy as np
from blocks import block, block_in_scope, in_turns, make_step

import autodist

_STEPS = 3
_WIDTH = 1024
_LAYERS = 10
_BATCH_SIZE = 512


def compiled(overlap, batch):
    """A scope and its step, compiled with overlap or without."""
    os.environ["AUTODIST_OVERLAP"] = "1" if overlap else "0"
    ad = autodist.AutoDist()
    step = ad.function(make_step(_WIDTH, _WIDTH, _LAYERS))
    with ad.scope():
        block(step, batch, _STEPS)
    return ad, step


def main():
    rounds = int(sys.argv[1])
    output = os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[2])  # which comes back to the launching host
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _WIDTH), dtype=np.float32)
    ways = {"overlap": compiled(True, batch), "in_turn": compiled(False, batch)}
    times = in_turns(ways, lambda way: block_in_scope(*way, batch, _STEPS), rounds)
    if ways["overlap"][0].rank == 0:
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
