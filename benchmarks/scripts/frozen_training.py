"""Take a step that looks rows up in a large table from outside; print its time and the process's memory as JSON.

Usage: frozen_training.py plain|autodist tensor|array|nested MEGABYTES
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf
from memory_training import resident

import autodist

_WIDTH = 256


def make_step(kind, megabytes):
    rows = np.ones((int(megabytes * 1e6) // (4 * _WIDTH), _WIDTH), np.float32)
    table = tf.constant(rows) if kind == "tensor" else rows
    del rows
    weight = tf.Variable(tf.zeros([_WIDTH, 1]))

    def look_up(ids):
        return tf.gather(table, ids)

    given = tf.function(look_up) if kind == "nested" else look_up

    def step(ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(given(ids) @ weight - y))
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return loss

    return step


def train(step):
    ids, y = np.arange(16), np.ones((16, 1), np.float32)
    began_s = time.perf_counter()
    step(ids, y)
    return {"first_step_s": time.perf_counter() - began_s, "peak": resident("VmHWM")}


def main():
    way, kind, megabytes = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if way == "plain":
        moments = train(tf.function(make_step(kind, megabytes)))
    else:
        ad = autodist.AutoDist()
        with ad.scope():
            moments = train(ad.function(make_step(kind, megabytes)))
    print(json.dumps(moments))


if __name__ == "__main__":
    main()
