"""Run a training script to the end of its first step, and write down when that was.

Usage: first_step.py DIRECTORY SCRIPT
"""

import os
import runpy
import sys
import time
from pathlib import Path

import keras


class FirstStep(keras.callbacks.Callback):
    """Ends the script after its first step."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory

    def on_train_batch_end(self, batch, logs=None):
        (self.directory / f"first_step.{os.environ.get('RANK', 0)}").write_text(str(time.time()))
        raise SystemExit(0)


def main():
    directory, script = Path(sys.argv[1]), sys.argv[2]
    fit = keras.Model.fit

    def fit_once(model, *args, **kwargs):
        return fit(model, *args, callbacks=[FirstStep(directory)], **kwargs)

    keras.Model.fit = fit_once
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
