"""Alternate blocks of steps by AutoDist and without communication; the chief writes times and bytes.

Usage: network_training.py ROUNDS OUTPUT, by `autodist run`
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
from blocks import block, make_step

import autodist
from autodist.testing import sent_bytes, wire_bytes

_STEPS = 3
_WIDTH = 1024
_LAYERS = 10  # 40 MB of parameters that take little computing
_BATCH_SIZE = 16


def main():
    rounds = int(sys.argv[1])
    output = os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[2])  # which comes back to the launching host
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _WIDTH), dtype=np.float32)
    ad = autodist.AutoDist()
    plain, ours = (way(make_step(_WIDTH, _WIDTH, _LAYERS)) for way in (tf.function, ad.function))
    times = {"autodist": [], "plain": []}
    own = batch[: _BATCH_SIZE // 2]
    block(plain, own, _STEPS)
    with ad.scope():
        block(ours, batch, _STEPS)
    sent = 0
    for _ in range(rounds):  # inside the scope, the plain step would be distributed as well
        times["plain"].append(block(plain, own, _STEPS))
        with ad.scope():
            before = wire_bytes()
            times["autodist"].append(block(ours, batch, _STEPS))
            sent += sum(sent_bytes(before, wire_bytes()).values())
    if ad.rank == 0:
        with open(output, "w") as file:
            json.dump(times | {"sent_bytes_per_step": sent / (rounds * _STEPS)}, file)


if __name__ == "__main__":
    main()
