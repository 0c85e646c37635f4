"""A short training of a model of `examples/models`, as a user types it: by AutoDist, or by Horovod by its pages.

Usage: first_command_training.py SYSTEM MODEL STEPS.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import models

SYSTEM, MODEL, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])
_BATCH_SIZE, _BATCHES = 32, 4


def build():
    keras.utils.set_random_seed(1)
    return models.get(MODEL).build("medium", batch_size=_BATCH_SIZE)


def by_autodist():
    import autodist

    with autodist.scope():
        training = build()
        step = tf.function(training.step)
        batches = [training.batch(number) for number in range(_BATCHES)]
        for number in range(STEPS):
            loss = step(*batches[number % _BATCHES])
        print(f"loss {float(loss):.4f}", flush=True)


def by_horovod():
    import horovod.tensorflow as hvd

    hvd.init()
    training = build()
    # Its tape knows TensorFlow's variables only, not those of Keras that wrap them.
    variables = [v.value if isinstance(v, keras.Variable) else v for v in training.variables]

    @tf.function
    def step(*batch):
        with tf.GradientTape() as tape:
            loss = training.loss_of(*batch)
        tape = hvd.DistributedGradientTape(tape)
        training.optimizer.apply(tape.gradient(loss, variables), training.variables)
        return loss

    def part(array):
        return array[hvd.rank() * len(array) // hvd.size() : (hvd.rank() + 1) * len(array) // hvd.size()]

    batches = [[part(array) for array in training.batch(number)] for number in range(_BATCHES)]
    hvd.broadcast_variables(variables, root_rank=0)
    for number in range(STEPS):
        loss = step(*batches[number % _BATCHES])
    print(f"loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    {"autodist": by_autodist, "horovod": by_horovod}[SYSTEM]()
