"""A training script whose workers ask each other for what lives there: between steps, in loops and branches, and late.

The tests run it undistributed and on two workers.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contextlib
import threading

import numpy as np
import psutil
import tensorflow as tf

import autodist

RANK = int(os.environ.get("RANK", "0"))
STRATEGY = "PSLoadBalancing(communicator='tcp')"


def batches(count, size=6):
    random = np.random.default_rng(3)
    for _ in range(count):
        yield random.integers(0, 40, (size, 3)), random.normal(size=(size, 1)).astype("float32")


def steps_of(table, dense):
    def trained(loss_of):
        @tf.function
        def step(ids, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(loss_of(ids) - y))
            variables = [table, dense]
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
            return loss

        return step

    def in_loop(ids):
        total = tf.zeros((tf.shape(ids)[0], 4))
        for k in tf.range(3):
            total += tf.gather(table, ids[:, k])
        return total @ dense

    def in_branch(ids):
        count = tf.shape(ids)[0]
        return tf.cond(
            tf.reduce_sum(dense) > 1e6,
            lambda: tf.zeros((count, 1)),
            lambda: in_loop(ids) + tf.gather(table, ids[:, 1]) @ dense,
        )

    @tf.function
    def twice(ids, y):
        for _ in range(2):  # the second time with what the first has changed
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.gather(table, ids), 1) @ dense - y))
            dense.assign_sub(0.1 * tape.gradient(loss, dense))
            table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))
        numbers = tf.strings.as_string(ids[:, 0])  # of all examples
        return loss + tf.reduce_sum(dense) + tf.reduce_sum(tf.gather(table, [0, 39])), numbers

    flat = trained(lambda ids: tf.reduce_sum(tf.gather(table, ids), 1) @ dense)
    return flat, trained(in_loop), trained(in_branch), lambda ids, y: spelled(*twice(ids, y))


def spelled(value, numbers):
    return float(value) * float(b"".join(numbers.numpy()))


def listening():
    return sum(one.status == psutil.CONN_LISTEN for one in psutil.Process().net_connections("inet"))


@contextlib.contextmanager
def looking_at(variables):
    """Have another thread of one of the workers look at variables all the time; ends the script where it can't."""
    ended, failures = threading.Event(), []

    def look():
        try:
            while not ended.wait(0.002):
                assert all(np.size(variable.numpy()) for variable in variables)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]


def main(scope):
    with scope(), contextlib.ExitStack() as stack:
        table = tf.Variable(np.random.default_rng(0).normal(size=(40, 4)).astype("float32"))
        dense = tf.Variable(np.random.default_rng(1).normal(size=(4, 1)).astype("float32"))
        if RANK == 1:
            stack.enter_context(looking_at([table, dense]))
        flat, *others = steps_of(table, dense)
        look = tf.function(lambda ids: tf.reduce_sum(tf.gather(table, ids)))
        seen, open_ports = [], 0
        for number, (ids, y) in enumerate(batches(6)):
            seen += [float(flat(ids, y)), float(look(ids)), float(tf.reduce_sum(table))]
            if number == 1:
                table.assign(table * 0.5)
            if number >= 3:
                seen += [float(step(ids, y)) for step in others]
            open_ports += listening()
        return np.array(seen), table.numpy(), dense.numpy(), np.array(open_ports)


if __name__ == "__main__":
    np.savez(f"{sys.argv[1]}{RANK}.npz", *main(autodist.AutoDist(strategy=STRATEGY).scope))
else:
    plain = main(contextlib.nullcontext)
