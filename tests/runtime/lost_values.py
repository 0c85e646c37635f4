"""`lost_values.py [inside]`: worker 1 is stopped between two steps; worker 0 fails, and does what scripts then do.

It finds worker 1 as one finds it that is gone, but the run goes on, which would refuse to save else. Worker 0 writes a
line of JSON: by what it has tried, the error that it got, or what it found.

With `inside` worker 1 is killed, and worker 0 catches the error of its step inside the scope.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

rank = int(os.environ["RANK"])
IS_CAUGHT_INSIDE = "inside" in sys.argv
if IS_CAUGHT_INSIDE:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends what is left, this one after all has been tried
x, y = np.ones((8, 200), np.float32), np.ones((8, 200), np.float32)
keras.utils.set_random_seed(1)
found = {}


def tried(name, do):
    """Note what comes of something."""
    try:
        found[name] = ["found", str(do())]
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]


model = keras.Sequential([keras.Input((200,)), *(keras.layers.Dense(200, name=f"layer_{k}") for k in range(2))])
model.predict(x, verbose=0)  # traced before anything is lost
model.save_weights("before.weights.h5")
model.save("before.keras")
try:
    with autodist.scope():
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
        model.fit(x, y, verbose=0)
        if rank == 1:
            Path("1.part").write_text(str(os.getpid()))
            Path("1.part").rename("1.pid")
            os.kill(os.getpid(), signal.SIGKILL if IS_CAUGHT_INSIDE else signal.SIGSTOP)
        if IS_CAUGHT_INSIDE:
            tried("step", lambda: model.fit(x, y, verbose=0))
            tried("inside", model.get_weights)
        while not Path("1.pid").exists():
            time.sleep(0.01)
        if not IS_CAUGHT_INSIDE:
            raise ValueError("only here")
except (ValueError, autodist.errors.WorkerFailed) as error:
    found["left"] = [type(error).__name__, str(error)]

lost, kept = [], []
for variable in model.variables + model.optimizer.variables:
    try:
        value = variable.numpy()
    except autodist.errors.WorkerFailed:
        lost.append(variable.path)
    else:
        kept.append([variable.path, list(value.shape), float(np.abs(value).max(initial=0.0))])
found |= {"lost": lost, "kept": kept}
name = next(path for path in lost if path.endswith("/kernel"))
gone = next(variable for variable in model.variables if variable.path == name)

tried("numpy", gone.numpy)
if IS_CAUGHT_INSIDE:
    Path("found.json").write_text(json.dumps(found))
    sys.exit(1)
tried("value", lambda: gone.value + 1.0)
tried("tensorflow", lambda: tf.convert_to_tensor(gone.value))
tried("get_weights", model.get_weights)
tried("save", lambda: model.save("before.keras"))
tried("save_weights", lambda: model.save_weights("before.weights.h5"))
tried("export", lambda: model.export("exported", verbose=False))
tried("checkpoint", lambda: tf.train.Checkpoint(model=model).write("checkpoint"))
tried("predict", lambda: model.predict(x, verbose=0))
tried("call", lambda: model(x))
tried("is_initialized", lambda: gone.value.is_initialized())
tried("assign_add", lambda: gone.value.assign_add(tf.ones(gone.shape)))
tried("wrong shape", lambda: gone.value.assign(tf.ones([3])))
tried("still lost", gone.numpy)
tried("load_weights", lambda: model.load_weights("before.weights.h5"))
tried("found again", lambda: bool(np.abs(gone.numpy()).max() > 0))
tried("save slots", lambda: model.save("after.keras"))
tried("assign", lambda: [v.assign(np.zeros(v.shape)) for v in model.optimizer.variables if v.path in lost] and None)
tried("save again", lambda: model.save("after.keras"))
Path("found.json").write_text(json.dumps(found))
os.kill(int(Path("1.pid").read_text()), signal.SIGKILL)
time.sleep(60.0)  # until the launcher ends this
