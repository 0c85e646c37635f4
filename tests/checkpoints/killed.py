"""Processes that are killed while they save: `killed.py DIRECTORY WAY ... [--events N] [--times N] [--seed N]`.

TensorFlow is imported once; each attempt is a fork, which saves version 1, 2, 3 of a model and dies by SIGKILL during
the third: at the n-th file operation of Python, for all n there are, and at moments between. Then version 2 or 3 must
be there, whole. Writes a line per attempt.
"""

import argparse
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

SIZE = 1200
FILE_OPERATIONS = ("open", "os.", "shutil.", "tempfile.", "ctypes.")


def make_model():
    model = keras.Sequential([keras.Input((SIZE,)), keras.layers.Dense(SIZE), keras.layers.Dense(SIZE)])
    model.compile(keras.optimizers.SGD(), "mse")
    return model


def filled(model, version):
    for variable in model.variables:
        variable.assign(tf.fill(variable.shape, float(version)))
    return model


def managed(model, directory):
    return tf.train.CheckpointManager(tf.train.Checkpoint(model=model), str(directory / "saved"), max_to_keep=1)


def with_callback(model, directory):
    callback = keras.callbacks.ModelCheckpoint(directory / "saved.keras")
    callback.set_model(model)
    return lambda: callback.on_epoch_end(0, {})


def module(model):
    kept = tf.Module()
    kept.weights = model.variables[0].value
    kept.also = model.variables[2].value
    return kept


def in_graph(_, directory):
    """TensorFlow 1 style: a saver that keeps the last one only."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        v1.get_variable("v", [SIZE, SIZE])
        version = v1.placeholder(tf.float32, [])
        fill = [v.assign(tf.fill(v.shape, version)) for v in v1.global_variables()]
        saver = v1.train.Saver(max_to_keep=1)
    versions = iter(range(1, 4))

    def save():
        number = next(versions)
        with graph.as_default():
            session = OPEN[0].Session()
            session.run(fill, {version: number})
            saver.save(session, str(directory / "saved"), global_step=number)

    return save


OPEN = []
WAYS = {
    "keras": lambda m, d: lambda: m.save(d / "saved.keras"),
    "h5": lambda m, d: lambda: m.save(d / "saved.h5"),
    "weights": lambda m, d: lambda: m.save_weights(d / "saved.weights.h5"),
    "callback": with_callback,
    "directory": lambda m, d: lambda: keras.saving.save_model(m, d / "saved", zipped=False),
    "checkpoint": lambda m, d: (lambda c: lambda: c.save(str(d / "saved/ckpt")))(tf.train.Checkpoint(model=m)),
    "manager": lambda m, d: managed(m, d).save,
    "saved_model": lambda m, d: lambda: tf.saved_model.save(module(m), str(d / "saved")),
    "export": lambda m, d: lambda: m.export(d / "saved", verbose=False),
    "saver": in_graph,
}


def read_checkpoint(directory):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(directory))
    names = [name for name in reader.get_variable_to_shape_map() if "kernel" in name or "bias" in name or name == "v"]
    return [reader.get_tensor(name) for name in names]


def read_weights(directory):
    model = make_model()
    model.load_weights(directory / "saved.weights.h5")
    return model.get_weights()


def read_exported(directory):
    return [v.numpy() for v in tf.saved_model.load(str(directory / "saved")).variables]


def read_module(directory):
    loaded = tf.saved_model.load(str(directory / "saved"))
    return [loaded.weights.numpy(), loaded.also.numpy()]


def read_model(name):
    return lambda d: keras.models.load_model(d / name, compile=False).get_weights()


READ = {
    "keras": read_model("saved.keras"),
    "h5": read_model("saved.h5"),
    "weights": read_weights,
    "callback": read_model("saved.keras"),
    "directory": read_model("saved"),
    "checkpoint": lambda d: read_checkpoint(str(d / "saved")),
    "manager": lambda d: read_checkpoint(str(d / "saved")),
    "saved_model": read_module,
    "export": read_exported,
    "saver": lambda d: read_checkpoint(str(d)),
}


def forked(program):
    """Run a program in a fork; returns its process number and what it can write to."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.close(read)
        program(write)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}"[:2000], file=sys.stderr, flush=True)
        os._exit(1)


def save_and_die(directory, way, event):
    left = [0]

    def count(name, _):
        if left[0] and name.startswith(FILE_OPERATIONS):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def program(write):
        sys.addaudithook(count)
        with autodist.scope() as ad:
            OPEN.append(ad)
            model = make_model()
            save = WAYS[way](model, directory)
            for version in (1, 2, 3):
                filled(model, version)
                if version == 3:
                    os.write(write, b"3")
                    left[0] = event
                save()
            left[0] = 0
        os.write(write, b"d")

    return program


def attempt(directory, way, event=0, after_s=None):
    """The version that is there after a kill; whether the process was killed."""
    pid, read = forked(save_and_die(directory, way, event))
    assert wait_for(read, b"3", 300.0), "the process has not come to the third version"
    if after_s is not None:
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(read)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the process has failed"
    return version_there(directory, way), os.WIFSIGNALED(status)


def wait_for(read, byte, timeout_s):
    ready, _, _ = select.select([read], [], [], timeout_s)
    return bool(ready) and os.read(read, 1) == byte


def version_there(directory, way):
    def program(write):
        found = {float(value) for array in READ[way](directory) for value in np.unique(array)}
        assert len(found) == 1, f"values of several versions: {found}"
        os.write(write, str(int(found.pop())).encode())

    pid, read = forked(program)
    _, status = os.waitpid(pid, 0)
    version = os.read(read, 8)
    os.close(read)
    return int(version) if status == 0 else "BROKEN"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("ways", nargs="+", choices=list(WAYS))
    parser.add_argument("--events", type=int, default=1000, help="at most so many file operations, evenly chosen")
    parser.add_argument("--times", type=int, default=0)
    arguments = parser.parse_args()
    moments = random.Random(0)
    for way in arguments.ways:
        number, event, step = 0, 1, max(1, 60 // arguments.events)
        for number in range(arguments.events):
            directory = arguments.directory / f"{way}-{number}"
            directory.mkdir()
            version, killed = attempt(directory, way, event)
            print(way, f"event-{event}", "killed" if killed else "ended", version, flush=True)
            event += step
            if not killed:
                break
        for number in range(arguments.times):
            directory = arguments.directory / f"{way}-at-{number}"
            directory.mkdir()
            version, killed = attempt(directory, way, after_s=moments.uniform(0.0, 0.3))
            print(way, "time", "killed" if killed else "ended", version, flush=True)


if __name__ == "__main__":
    main()
