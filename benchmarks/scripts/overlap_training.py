"""Alternate blocks of steps with overlap and without; the chief writes the times.

Usage: overlap_training.py ROUNDS OUTPUT, by `autodist run`
"""

import json
import os
import sys

import numpy as np
from network_training import block, make_step

import autodist

_WIDTH = 1024
_BATCH_SIZE = 512


def compiled(overlap, batch):
    """A scope and its step, compiled with overlap or without."""
    os.environ["AUTODIST_OVERLAP"] = "1" if overlap else "0"
    ad = autodist.AutoDist()
    step = ad.function(make_step())
    with ad.scope():
        block(step, batch)
    return ad, step


def main():
    rounds = int(sys.argv[1])
    output = os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[2])  # which comes back to the launching host
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _WIDTH), dtype=np.float32)
    ways = {"overlap": compiled(True, batch), "in_turn": compiled(False, batch)}
    times = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 else reversed(ways):
            ad, step = ways[name]
            with ad.scope():
                times[name].append(block(step, batch))
    if ways["overlap"][0].rank == 0:
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
