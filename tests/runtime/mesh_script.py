"""A script as it is written for Keras on JAX: a mesh of all devices, and layouts by names.

`mesh_script.py FILE GROUPS`: writes weights to a file. With one group, the model is built in the distribution's scope,
as Keras on JAX also has it; with several, the distribution is set.
"""

import contextlib
import sys

import keras
import numpy as np
from keras.distribution import DeviceMesh, LayoutMap, ModelParallel, initialize, list_devices, set_distribution

import autodist

devices = list_devices()
groups = int(sys.argv[2])
mesh = DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
layouts = LayoutMap(mesh)
layouts["block/up/kernel"] = (None, "model")
layouts[".*down/kernel"] = ("model", None)
if len(devices) > 1:  # Keras on TensorFlow has neither
    initialize()
    layouts[".*up/output"] = (None, "model")
distribution = ModelParallel(layout_map=layouts, batch_dim_name="batch")
if groups > 1:
    set_distribution(distribution)

keras.utils.set_random_seed(0)
with autodist.scope():
    with contextlib.nullcontext() if groups > 1 else distribution.scope():
        up, down = keras.layers.Dense(32, activation="relu", name="up"), keras.layers.Dense(8, name="down")
        model = keras.Sequential([keras.Input((16,)), up, down], name="block")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(0).normal(size=(48, 16)).astype(np.float32)
    begun = model.get_weights()
    model.fit(x, x[:, :8], batch_size=20, shuffle=False, verbose=0)
    loss, predicted, weights = model.evaluate(x, x[:, :8], verbose=0), model.predict(x, verbose=0), model.get_weights()
    if autodist.AutoDist().rank == 0:
        moved = [np.abs(after - before).max() for after, before in zip(weights, begun, strict=True)]
        np.savez(sys.argv[1], *weights, loss=loss, predicted=predicted, moved=moved, devices=len(devices))
