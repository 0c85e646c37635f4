"""Train a model of `examples/models` by one of several systems, a block of steps whenever the benchmark asks for it.

Usage: peer_training.py SYSTEM MODEL SIZE BATCH_SIZE ADDRESSES SOCKET, by `autodist run`, which starts the workers of
all systems alike. ADDRESSES are for their own servers, with commas between them; SOCKET is the benchmark's: it says how
many steps, and is told the seconds of each.
"""

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import models

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
_BATCHES = 4


class OwnPart:
    """What all systems but AutoDist have in common: a step on this worker's part of the batch."""

    def __init__(self, build, addresses):
        self.training = build()
        self.step = tf.function(self.training.step)

    def batch(self, number):
        whole = self.training.batch(number)
        return [array[RANK * len(array) // SIZE : (RANK + 1) * len(array) // SIZE] for array in whole]

    def scope(self):
        return contextlib.nullcontext()


class Alone(OwnPart):
    """No communication: what a worker takes for its part of the batch."""


class Horovod(OwnPart):
    """Horovod as its documentation has it: gradients are averaged by its tape."""

    sparse_as_dense = False

    def __init__(self, build, addresses):
        import horovod.tensorflow as hvd

        os.environ.pop("HOROVOD_FUSION_THRESHOLD", None)  # set for AutoDist; Horovod's own default is the peer
        hvd.init()
        self.training = build()
        # Its tape knows TensorFlow's variables only, not those of Keras that wrap them.
        variables = [v.value if isinstance(v, keras.Variable) else v for v in self.training.variables]

        @tf.function
        def step(*batch):
            with tf.GradientTape() as tape:
                loss = self.training.loss_of(*batch)
            tape = hvd.DistributedGradientTape(tape, sparse_as_dense=self.sparse_as_dense)
            self.training.optimizer.apply(tape.gradient(loss, variables), self.training.variables)
            return loss

        self.step = step


class HorovodDense(Horovod):
    """Its option for sparse gradients: they travel as large as the table."""

    sparse_as_dense = True


class Mirrored(OwnPart):
    """tf.distribute.MultiWorkerMirroredStrategy with a custom loop: Keras' optimizer adds up the gradients."""

    def __init__(self, build, addresses):
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": RANK}}
        )
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            self.training = build()
        variables = self.training.variables

        def replica_step(*batch):
            with tf.GradientTape() as tape:
                loss = self.training.loss_of(*batch)
                part = loss / SIZE
            self.training.optimizer.apply(tape.gradient(part, variables), variables)
            return loss

        @tf.function
        def step(*batch):
            return strategy.run(replica_step, batch)

        self.step = step


class AutoDist(OwnPart):
    """The step of the model's own, and batches as on one device."""

    def __init__(self, build, addresses):
        import autodist

        self.ad = autodist.AutoDist()
        with self.ad.scope():
            self.training = build()
            self.step = self.ad.function(self.training.step)

    def batch(self, number):
        return self.training.batch(number)

    def scope(self):
        return self.ad.scope()


class ParameterServer(OwnPart):
    """tf.distribute.ParameterServerStrategy: each host has a worker and a server, the first one also the coordinator.

    Its training is asynchronous. A step here is one of each worker, and the next one begins when all are done: as much
    work and as many bytes as those of the others, but as many updates as there are workers.
    """

    def __init__(self, build, addresses):
        cluster = {"worker": addresses, "ps": [shifted(address, 100) for address in addresses]}
        self.servers = [tf.distribute.Server(cluster, job_name=job, task_index=RANK) for job in cluster]
        if RANK == 0:
            self.coordinate(build, tf.train.ClusterSpec(cluster | {"chief": [shifted(addresses[0], 200)]}))

    def coordinate(self, build, cluster):
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            training = build()
        variables = training.variables

        def replica_step(*batch):
            with tf.GradientTape() as tape:
                loss = training.loss_of(*batch)
            training.optimizer.apply(tape.gradient(loss, variables), variables)
            return loss

        @tf.function
        def step(batches):
            return strategy.run(replica_step, next(batches))

        def parts():  # the same of each worker: which rows they are changes nothing of a step's time
            arrays = [np.stack(column) for column in zip(*map(training.batch, range(_BATCHES)), strict=True)]
            own = tuple(array[:, : array.shape[1] // SIZE] for array in arrays)
            return tf.data.Dataset.from_tensor_slices(own).repeat().prefetch(1)

        self.one_step = step
        self.batches = iter(self.coordinator.create_per_worker_dataset(parts))

    def batch(self, number):
        return ()

    def step(self):
        """One of each worker; workers that only serve have none."""
        if RANK != 0:
            return 0.0
        losses = [self.coordinator.schedule(self.one_step, args=(self.batches,)) for _ in range(SIZE)]
        self.coordinator.join()
        return losses[-1].fetch()


def shifted(address, by):
    """The same host's, of another port."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + by}"


SYSTEMS = {
    "alone": Alone,
    "horovod": Horovod,
    "horovod_dense": HorovodDense,
    "mirrored": Mirrored,
    "servers": ParameterServer,
    "autodist": AutoDist,
}


def system_named(name, build, addresses):
    """One of the systems; a run of AutoDist refuses optimizers outside of a scope, where others have theirs."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    if name != "autodist":
        BaseOptimizer.apply = getattr(BaseOptimizer.apply, "__wrapped__", BaseOptimizer.apply)
    return SYSTEMS[name](build, addresses)


def main():
    name, model, size, batch_size, addresses, path = sys.argv[1:]
    system = system_named(name, lambda: models.get(model).build(size, batch_size=int(batch_size)), addresses.split(","))
    batches = [system.batch(number) for number in range(_BATCHES)]
    with system.scope(), socket.socket(socket.AF_UNIX) as end:
        first = block(system, batches, 1)
        end.connect(path)
        lines = end.makefile("rw")
        say(lines, first | {"gradient_bytes": gradient_bytes(system) if name == "alone" else 0})
        for line in lines:
            say(lines, block(system, batches, int(line)))


def block(system, batches, count):
    """Seconds of each step, and the last one's loss, which says that they were made."""
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        loss = float(system.step(*batches[number % _BATCHES]))
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "loss": loss}


def gradient_bytes(system):
    """Of this host with all its workers' parts of a batch, each row of a table counted once."""
    workers = int(os.environ["LOCAL_WORLD_SIZE"])
    first = RANK // workers * workers
    whole = system.training.batch(0)
    batch = [array[first * len(array) // SIZE : (first + workers) * len(array) // SIZE] for array in whole]
    with tf.GradientTape() as tape:
        loss = system.training.loss_of(*map(tf.convert_to_tensor, batch))
    variables = [v.value if isinstance(v, keras.Variable) else v for v in system.training.variables]
    return sum(map(bytes_of, tape.gradient(loss, variables)))


def bytes_of(gradient):
    if not isinstance(gradient, tf.IndexedSlices):
        return 4 * int(tf.size(gradient))
    rows, width = np.unique(gradient.indices).size, int(np.prod(gradient.values.shape[1:]))
    return rows * (4 * width + 4)


def say(lines, what):
    lines.write(json.dumps(what) + "\n")
    lines.flush()


if __name__ == "__main__":
    main()
