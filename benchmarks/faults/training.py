"""The training that faults happen to: `training.py [--steps N] [--every N]`.

It says each step that it has taken, has a checkpoint every few steps, and writes down what it ends with, also when it
is interrupted. What fails in the script itself is ordered by a file of the worker's host, `order`.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import course
import keras
import numpy as np
import tensorflow as tf

import autodist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--every", type=int, default=5, help="steps from one checkpoint to the next")
parser.add_argument("--pause-s", type=float, default=0.1)
arguments = parser.parse_args()
rank = os.environ["RANK"]


def keep(weights, steps, how):
    """Write down how the training has ended."""
    Path("out").mkdir(exist_ok=True)
    np.savez(f"out/{rank}.npz", weights=weights, steps=steps, how=how)


def ordered():
    """What this worker has been ordered to do wrong."""
    try:
        return Path("order").read_text()
    except FileNotFoundError:
        return ""


def step_as_ordered(x, y):
    """Take a step; False if it has failed, and the script makes nothing of that."""
    order = ordered()
    if order == "raise":
        raise ValueError("only here")
    try:
        train_step(x * np.nan if order.startswith("fail") else x, y)
    except tf.errors.InvalidArgumentError:
        if order != "fail and catch":
            raise
        return False
    return True


def dataset():
    """Batches without end, in a fixed order."""
    batches = tf.data.Dataset.from_tensor_slices(course.data()).batch(course.BATCH)
    return batches.repeat().take(arguments.steps)


ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((course.begin().shape[0],)), keras.layers.Dense(8, use_bias=False)])
    model.set_weights([course.begin()])
    optimizer = keras.optimizers.SGD(course.RATE, momentum=course.MOMENTUM)

    @ad.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            outputs = model(tf.debugging.check_numerics(x, "broken data"), training=True)
            loss = tf.reduce_mean(tf.square(outputs - y))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    how = "ended"
    try:
        checkpoint = ad.checkpoint("checkpoints", every_steps=arguments.every, model=model, optimizer=optimizer)
        for step, (x, y) in checkpoint.steps(ad.shard(dataset())):
            if step_as_ordered(x, y):
                print("step", step, flush=True)
            time.sleep(arguments.pause_s)
    except KeyboardInterrupt:
        how = "interrupted"
    keep(model.get_weights()[0], int(optimizer.iterations.numpy()), how)
