"""`fit` with checkpoints: `fit.py DIRECTORY [--kill ATTEMPT:RANK:STEP ...]`, steps counted over all epochs."""

import argparse

import keras

import autodist
from restarts import killing

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--kill", nargs="*", default=[])
parser.add_argument("--save-freq", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--checkpoints")
parser.add_argument("--warm-up", action="store_true", help="train before checkpoints are looked for")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--keep", action="store_true", help="the checkpoints, when fit has ended")
parser.add_argument("--keras", action="store_true", help="take Keras' own callback")
arguments = parser.parse_args()


class Killing(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.first = 8 * epoch

    def on_train_batch_end(self, batch, logs=None):
        killing.die_if_ordered(arguments.kill, self.first + batch)


keras.utils.set_random_seed(3)
directory = arguments.checkpoints or f"{arguments.directory}/checkpoints"
if arguments.keras:
    backup = keras.callbacks.BackupAndRestore(directory)
else:
    backup = autodist.BackupAndRestore(
        directory, save_freq=arguments.save_freq or "epoch", delete_checkpoint=not arguments.keep
    )
with autodist.scope():
    model = killing.model(arguments.dropout)
    model.compile(keras.optimizers.Adam(0.02, epsilon=1e-3), loss="mse", metrics=["mae"])
    if arguments.warm_up:
        model.fit(killing.dataset(seed=6), verbose=0)
    history = model.fit(killing.dataset(), epochs=arguments.epochs, verbose=0, callbacks=[Killing(), backup]).history

killing.keep(arguments.directory, model, model.optimizer, losses=history["loss"] if history else [])
