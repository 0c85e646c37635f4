"""What `--encrypt` lets others on the network hear of a run: nothing."""

import json
import os
import random
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from autodist.search import Measurement, TrialStore

ETH_P_ALL = 3
TRAIN = str(Path(__file__).parents[1] / "tuning" / "train.py")
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

plain = before - 3 * 0.5 * float(os.environ["GRADIENT"])  # the gradient is what each row is
AUTO = "auto(proposals=100)"
for strategy in ("AllReduce(communicator='tcp')", "PartitionedPS(communicator='tcp')", AUTO):
    with autodist.scope(strategy=strategy) as ad:
        ours, step = train()
        distributed = ad.function(step.python_function)
        for _ in range(3):
            distributed(x)
        np.testing.assert_allclose(ours.numpy(), plain, rtol=1e-5)  # of half of it the other worker is asked
        assert (ours.numpy() != before).all()
        carriers = {carrier for one in ad.strategies for carrier in one.carriers}
    print(f"attempt {os.environ['AUTODIST_ATTEMPT']} trained as one device does, over {carriers}")
    if (os.environ["RANK"], os.environ["AUTODIST_ATTEMPT"]) == ("1", "0") and os.environ["RESTARTS"] == "1":
        os._exit(3)  # after which all is begun anew, with another secret
if os.environ["AUTODIST_CERTIFICATE"]:
    try:
        with autodist.scope(strategy="AllReduce(communicator='collective')") as ad:
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
    ("options", "restarts"),
    [
        pytest.param((), 0, marks=pytest.mark.slow, id="plain"),
        pytest.param(("--encrypt",), 0, id="encrypted"),
        pytest.param(("--encrypt",), 1, marks=pytest.mark.slow, id="encrypted and restarted"),
    ],
)
def test_what_is_heard_on_the_network(shell, options, restarts):
    if os.getuid() != 0:
        pytest.skip("only root hears the packets of an interface")
    shell.write(SCRIPT)
    gradient = np.float32(0.5 + random.random())  # of this run alone
    with Listener() as listener:
        done = shell(
            *("run", "train.py", "-n", "2", "--max-restarts", str(restarts), *options),
            GRADIENT=repr(float(gradient)), RESTARTS=str(restarts),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"attempt {restarts} trained as one device does, over {{'tcp'}}") == 6
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
        assert done.stdout.count("refused: the run is to be encrypted (`--encrypt`), but AllReduce") == 2


@pytest.mark.slow  # quick is a run; these start it in the same way
def test_searches_and_certificates_are_encrypted_too(shell):
    """What can't be encrypted is not tried: with it, a worker would refuse."""
    searched = shell(
        *("search", TRAIN, "--workers", "2", "--encrypt", "--trials", "8", "--warm-up", "1", "--iterations", "3"),
        "--json",
    )
    assert searched.returncode == 0, searched.stderr
    found = json.loads(searched.stdout)
    why_not = {baseline["name"]: baseline["why_not"] for baseline in found["baselines"]}
    assert why_not["AllReduce(communicator='collective')"] == "TensorFlow's collectives can't be encrypted"
    assert why_not["PartitionedPS"] is None
    with TrialStore(shell.directory / "runs" / "trials.db") as store:
        [study] = store.studies()
        trials = store.trials(study)
    assert len(trials) == 8
    assert {carrier for trial in trials for carrier in trial.strategy.carriers} == {"tcp"}
    assert any(isinstance(trial.outcome, Measurement) for trial in trials)

    certified = shell("certify", TRAIN, "--strategy", "auto", "--encrypt", "--steps", "1", "--json")
    assert certified.returncode == 0, certified.stderr
    assert json.loads(certified.stdout)["passed"]
    refused = shell("certify", TRAIN, "--strategy", "Horovod(communicator='horovod')", "--encrypt")
    assert refused.returncode == 2
    assert "goes over Horovod, so everything would be sent in the clear" in refused.stderr
