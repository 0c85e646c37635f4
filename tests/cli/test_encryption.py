"""What `--encrypt` lets others on the network hear of a run: nothing."""

import os
import random
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

ETH_P_ALL = 3
SCRIPT = """
import autodist, keras, numpy as np, os, tensorflow as tf
from autodist.errors import StrategyError

x = np.full((8, 40_000), float(os.environ["GRADIENT"]), np.float32)
before = np.zeros((40_000, 1), np.float32)

def train():
    w = tf.Variable(before)
    optimizer = keras.optimizers.SGD(0.5)
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss
    return w, step

plain, step = train()
for _ in range(3):
    step(x)
for strategy in ("AllReduce(communicator='tcp')", "PartitionedPS(communicator='tcp')"):
    with autodist.scope(strategy=strategy) as ad:
        ours, step = train()
        distributed = ad.function(step.python_function)
        for _ in range(3):
            distributed(x)
        np.testing.assert_allclose(ours.numpy(), plain.numpy(), rtol=1e-5)  # of half of it the other worker is asked
        assert (ours.numpy() != before).all()
    print("trained as one device does")
if os.environ["AUTODIST_CERTIFICATE"]:
    try:
        with autodist.scope(strategy="PartitionedPS(communicator='queue')") as ad:
            ad.function(train()[1].python_function)(x)
    except StrategyError as error:
        print("refused:", error.message)
if os.environ["RANK"] == "0":
    open("token", "w").write(os.environ["AUTODIST_TOKEN"])
"""


class Listener:
    """Hears all packets of the loopback, as a machine between workers does those of their network."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._is_over = False
        self.heard = bytearray()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._is_over = True
        self._thread.join()
        self._socket.close()

    def _listen(self):
        while not self._is_over:
            try:
                self.heard += self._socket.recv(1 << 17)
            except TimeoutError:
                continue


@pytest.mark.parametrize(
    "options", [pytest.param((), marks=pytest.mark.slow, id="plain"), pytest.param(("--encrypt",), id="encrypted")]
)
def test_what_is_heard_on_the_network(shell, options):
    if os.getuid() != 0:
        pytest.skip("only root hears the packets of an interface")
    shell.write(SCRIPT)
    gradient = np.float32(0.5 + random.random())  # of this run alone
    with Listener() as listener:
        done = shell("run", "train.py", "-n", "2", *options, GRADIENT=repr(float(gradient)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained as one device does") == 4
    token = Path(shell.directory, "token").read_bytes()
    is_open = not options
    assert len(listener.heard) > 10_000
    assert (token in listener.heard) is is_open
    # Gradients have one value, over and over, their parts half of it; what the program asks for is three updates away.
    values = (gradient, gradient / 2, -1.5 * gradient)
    whole, part, asked = (np.full(64, value, np.float32).tobytes() in listener.heard for value in values)
    assert (whole or part) is is_open
    assert asked is is_open
    if not is_open:
        assert done.stdout.count("refused: the run is to be encrypted (`--encrypt`), but PartitionedPS") == 2
