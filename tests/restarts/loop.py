"""A custom loop with checkpoints: `loop.py DIRECTORY [--kill ATTEMPT:RANK:STEP ...]`."""

import argparse

import keras
import tensorflow as tf

import autodist
from restarts import killing

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--kill", nargs="*", default=[])
parser.add_argument("--every-steps", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--checkpoints")
parser.add_argument("--warm-up", action="store_true", help="train before checkpoints are looked for")
parser.add_argument("--every-s", type=float)
parser.add_argument("--dropout", type=float, default=0.0)
arguments = parser.parse_args()

keras.utils.set_random_seed(3)
dataset = killing.dataset()
ad = autodist.AutoDist()
with ad.scope():
    model = killing.model(arguments.dropout)
    optimizer = keras.optimizers.Adam(0.02, epsilon=1e-3)

    @ad.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    if arguments.warm_up:
        for x, y in ad.shard(killing.dataset(seed=6)):
            train_step(x, y)

    checkpoint = ad.checkpoint(
        arguments.checkpoints or f"{arguments.directory}/checkpoints",
        every_steps=arguments.every_steps or None,
        every_s=arguments.every_s,
        model=model,
        optimizer=optimizer,
    )
    taken = []
    for _ in range(arguments.epochs):
        for step, (x, y) in checkpoint.steps(ad.shard(dataset)):
            killing.die_if_ordered(arguments.kill, step)
            train_step(x, y)
            taken.append(step)
    assert checkpoint.step == 8 * arguments.epochs, checkpoint.step

killing.keep(arguments.directory, model, optimizer, taken=taken)
