"""What callbacks do and decide: `CASES` by name. Each runs in a directory of its own, which all workers share."""

import http.server
import json
import os
import pathlib
import threading
import time

import keras
import numpy as np

import autodist

from .data import BATCH, adam, arrays, compiled, dataset, held_out, outcome, weights

CASES = {}
RANK, WORKERS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
DECIDES = RANK == WORKERS - 1
"""One worker only, and not the chief where there is another; without workers, the one device."""


def case(function):
    CASES[function.__name__] = function
    return function


def fit(model, callbacks, **options):
    options = {"epochs": 4, "validation_data": held_out(), "batch_size": BATCH, "verbose": 0, **options}
    return model.fit(*arrays(), shuffle=False, callbacks=callbacks, **options)


class Seen(keras.callbacks.Callback):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__()
        self.rates, self.logs = [], []

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))
        self.logs.append(dict(logs))

    def on_train_batch_end(self, batch, logs=None):
        self.logs.append({"batch": batch, **logs})

    def on_test_batch_end(self, batch, logs=None):
        self.logs.append({"tested": batch, **logs})

    def on_test_end(self, logs=None):
        self.logs.append(dict(logs))

    def on_predict_batch_end(self, batch, logs=None):
        self.logs.append({"outputs": np.asarray(logs["outputs"])})


class Counting(http.server.BaseHTTPRequestHandler):
    """Counts what is posted."""

    def do_POST(self):
        self.server.posted += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@case
def callbacks_of_keras():
    """Those that write and those that decide, in one `fit`."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Counting)
    server.posted = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model, seen, told = compiled(optimizer=keras.optimizers.SGD(0.05)), Seen(), []
    k = keras.callbacks
    callbacks = [
        k.LearningRateScheduler(lambda epoch, rate: 0.9 * rate),
        k.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_delta=10.0),
        k.ModelCheckpoint("{epoch}.keras"),
        k.ModelCheckpoint("best.weights.h5", save_best_only=True, save_weights_only=True),
        k.ModelCheckpoint("often.weights.h5", save_weights_only=True, save_freq=2),
        k.CSVLogger("log.csv", append=True),
        k.TensorBoard("board", write_graph=False, histogram_freq=1, update_freq=1),
        k.BackupAndRestore("backup", delete_checkpoint=False),
        k.TerminateOnNaN(),
        k.RemoteMonitor(f"http://127.0.0.1:{server.server_port}"),
        k.LambdaCallback(on_epoch_end=lambda epoch, logs: told.append(logs["val_loss"])),
        seen,
    ]
    history = fit(model, callbacks)
    server.shutdown()
    assert server.posted == (4 if RANK == 0 else 0), f"{server.posted} messages"
    return {"rates": seen.rates, "logs": seen.logs, "told": told} | outcome(model, history)


@case
def early_stopping():
    model = compiled(optimizer=keras.optimizers.SGD(0.3))
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_mae", min_delta=10.0, patience=2, restore_best_weights=True, start_from_epoch=1
    )
    history = fit(model, [stopping], epochs=8)
    return {"stopped": stopping.stopped_epoch, "best": stopping.best_epoch} | outcome(model, history)


@case
def averaged_weights():
    """Weights exchanged for the validation, and `autodist.BackupAndRestore`, which keeps nothing in the end."""
    model = compiled(optimizer=keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.5))
    callbacks = [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)]
    if "AUTODIST_RUN_ID" in os.environ:
        callbacks.append(autodist.BackupAndRestore("own_backup", save_freq=2))
    return outcome(model, fit(model, callbacks))


@case
def averages_become_the_weights():
    """Moving averages, which are the weights when `fit` has ended."""
    model = compiled(optimizer=keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))
    found = outcome(model, fit(model, []))
    for weight, average in zip(model.get_weights(), model.optimizer._model_variables_moving_average, strict=True):
        np.testing.assert_array_equal(weight, average.numpy())
    return found


@case
def not_a_number():
    model = compiled(optimizer=keras.optimizers.SGD(1e30))
    history = fit(model, [keras.callbacks.TerminateOnNaN()], validation_data=None)
    steps = int(model.optimizer.iterations)
    return {"history": history.history, "epochs": history.epoch, "steps": steps, "stopped": model.stop_training}


class StopsInside(keras.callbacks.Callback):
    """One worker stops within an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if DECIDES and int(self.model.optimizer.iterations) == 4:
            self.model.stop_training = True


class StopsBetween(keras.callbacks.Callback):
    """One worker stops at the end of an epoch."""

    def on_epoch_end(self, epoch, logs=None):
        if DECIDES and epoch == 1:
            self.model.stop_training = True


@case
def one_worker_stops():
    inside, between = compiled(), compiled()
    first = outcome(inside, fit(inside, [StopsInside()], epochs=9))
    assert int(inside.optimizer.iterations) == 4
    return {"inside": first} | outcome(between, fit(between, StopsBetween(), epochs=9))


class SetsRate(keras.callbacks.Callback):
    """One worker sets the learning rate, and a variable of the loss, at all times that there are."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def on_train_begin(self, logs=None):
        self.scale(0.5)

    def on_epoch_begin(self, epoch, logs=None):
        self.scale(1.1)
        if DECIDES:
            self.factor.assign(0.1 * epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self.scale(0.9)

    def on_train_batch_end(self, batch, logs=None):
        self.scale(0.95)

    def on_epoch_end(self, epoch, logs=None):
        self.scale(0.8)

    def scale(self, factor):
        if DECIDES:
            self.model.optimizer.learning_rate = factor * float(self.model.optimizer.learning_rate)


@case
def one_worker_sets_the_rate():
    factor = keras.Variable(1.0, trainable=False, name="factor")

    def loss(y, y_pred):
        return keras.ops.mean((1 + factor) * keras.ops.square(y - y_pred), axis=-1)

    # Before the first step the chief's values count, whatever others have assigned; so the optimizer is built by one.
    model = compiled(optimizer=adam(), loss=loss)
    model.train_on_batch(*arrays())
    return outcome(model, fit(model, [SetsRate(factor)], epochs=2))


class ByTheClock(keras.callbacks.Callback):
    """Every worker decides by what its own clock says."""

    def __init__(self):
        super().__init__()
        self.began = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self.model.optimizer.learning_rate = 0.01 + 0.001 * (time.monotonic() % 1.0)

    def on_epoch_end(self, epoch, logs=None):
        if time.monotonic() > self.began + 0.05 * (1 + RANK):
            self.model.stop_training = True


@case
def every_worker_by_its_clock():
    """Nothing that one device would do again, but the same on all workers."""
    model = compiled()
    # Workers need not even have the same callbacks, and schedules are functions of the user's too.
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.9 + 0.1 * (time.monotonic() % 1.0)))
    history = fit(model, [ByTheClock(), schedule] if DECIDES else [schedule], epochs=5)
    return {"only_agrees": True, "rate": float(model.optimizer.learning_rate)} | outcome(model, history)


class Writes(keras.callbacks.Callback):
    """Writes files in the ways that people write files, guards nothing, and reads them again."""

    def __init__(self):
        super().__init__()
        self.read = []

    def on_train_begin(self, logs=None):
        os.makedirs("made/by/callback")
        self.lines = open("made/lines.txt", "w")  # noqa: SIM115

    def on_epoch_end(self, epoch, logs=None):
        with open("epochs.json", "w") as file:
            json.dump({"epoch": epoch, "logs": sorted(logs)}, file)
        with open("appended.txt", "a") as file:
            file.write(f"{epoch}\n")
        np.save(f"made/by/callback/{epoch}.npy", np.arange(epoch))
        draft = pathlib.Path("draft.txt")
        draft.write_text(f"epoch {epoch}")
        draft.replace("whole.txt")
        if epoch:
            os.remove(f"made/by/callback/{epoch - 1}.npy")
        self.lines.write(f"line {epoch}\n")
        self.read.append(json.loads(pathlib.Path("epochs.json").read_text())["epoch"])
        self.read.append(len(open("appended.txt").readlines()))  # noqa: SIM115

    def on_train_end(self, logs=None):
        self.lines.close()
        self.model.save("last.keras")


@case
def own_files():
    model, writes = compiled(), Writes()
    found = outcome(model, fit(model, [writes], epochs=3))
    assert writes.read == [0, 1, 1, 2, 2, 3], writes.read
    return {"read": writes.read} | found


@case
def of_evaluate_and_predict():
    model, seen = compiled(), Seen()
    model.fit(dataset(), verbose=0)
    model.evaluate(dataset(held_out()), verbose=0, callbacks=[seen])
    model.predict(held_out()[0], batch_size=BATCH, verbose=0, callbacks=[seen])
    return {"logs": seen.logs, "weights": weights(model)}
