"""Asynchronous and stale servers: who waits for whom, and what comes out."""

import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import UsageError
from autodist.kernels import Serving
from autodist.runtime.session import Server
from autodist.testing import InProcessCluster
from tests.quick import combinations

from . import plans
from .test_placement import BATCHES
from .test_placement import make_step as many_kinds

HOSTS = plans.hosts(2, 2)
TWO = ("h0:CPU:0", "h1:CPU:0")
THREE = ("h0:CPU:0", "h1:CPU:0", "h1:CPU:1")
X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = X @ np.float32([[1.0], [-2.0], [0.5], [3.0]])
START = float(np.mean(np.square(Y)))
OPTIONS = {"staleness 1": {"staleness": 1}, "staleness 3": {"staleness": 3}, "async": {"sync": False}}


def least_squares(rate=0.2, optimizer=keras.optimizers.SGD):
    w = tf.Variable(tf.zeros([4, 1]), name="w")
    chosen = optimizer(rate)
    chosen.build([w])

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w - y))
        chosen.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step


def running(step, arrays, options, replicas=TWO, destination="h0:CPU:0", hosts=HOSTS):
    return InProcessCluster(step, arrays, lambda g: plans.served(g, replicas, [destination], **options), hosts)


def trained(options, steps, optimizer=keras.optimizers.SGD, rate=0.2, **where):
    """w after so many steps of all workers together.

    Servers apply the gradients of one step during the next, and of those before earlier: on busy cores they would come
    as many steps late as the queues hold, with which no training at this rate comes anywhere.
    """
    made = running(least_squares(rate, optimizer), (X, Y), options, **where)
    for number in range(steps):
        made.step(X, Y)
        made.settle(number)
    made.settle(steps)
    (w,) = made.values()["w"]
    made.close()
    return w


def loss_of(w):
    return float(np.mean(np.square(X @ w - Y)))


@combinations(
    options=OPTIONS,
    optimizer=[pytest.param(keras.optimizers.SGD, id="SGD"), pytest.param(keras.optimizers.Adam, id="Adam")],
)
def test_converges_to_what_synchronous_training_does(options, optimizer):
    w = trained(OPTIONS[options], 60, optimizer)
    assert loss_of(w) < 0.01 * START
    synchronous = trained({}, 60, optimizer)
    assert np.max(np.abs(w - synchronous)) < 0.1 * np.max(np.abs(synchronous))


HOW = {
    "flat": {"replicas": THREE},
    "station": {"replicas": THREE, "extra": {"transfer": ("h1:CPU:1",)}},
    "proxy": {"replicas": TWO, "extra": {"local_proxy": True}},
    "server alone": {"replicas": ("h1:CPU:0", "h1:CPU:1"), "destination": "h0:CPU:1"},
    "third host": {"replicas": TWO, "destination": "h2:CPU:0", "hosts": plans.hosts(2, 2, 2)},
}


@combinations(how=HOW, options=OPTIONS)
def test_goes_with_every_placement(options, how):
    how = dict(HOW[how])
    w = trained({**OPTIONS[options], **how.pop("extra", {})}, 100, rate=0.05, **how)
    assert loss_of(w) < 0.05 * START


class Race:
    """A cluster whose second worker takes a step only when it is told to."""

    def __init__(self, options):
        self.made = running(least_squares(0.01), (X, Y), options)
        self.done = [0, 0]
        self.failures = []
        self._gate = threading.Semaphore(0)
        self._ended = False
        self._threads = [threading.Thread(target=self._run, args=(rank,), daemon=True) for rank in (0, 1)]
        for thread in self._threads:
            thread.start()

    def _run(self, rank):
        try:
            for _ in range(12):
                if rank == 1:
                    self._gate.acquire()
                if self._ended:
                    return
                self.made.workers[rank].step((X, Y))
                self.done[rank] += 1
        except tf.errors.OpError as error:
            if not self._ended:
                self.failures.append(error)

    def release(self):
        self._gate.release()

    def settled(self, expected):
        """The first worker's steps when it does not get any further."""
        deadline = time.monotonic() + 20
        while self.done[0] < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)  # would it go further?
        return self.done[0]

    def close(self):
        self._ended = True
        for worker in self.made.workers:
            for server in worker.servers:
                server.stop()  # which ends what waits for it
        for _ in range(12):
            self.release()
        for thread in self._threads:
            thread.join(20)
        self.made.close()


@pytest.mark.parametrize("staleness", [1, 3])
def test_the_lead_reaches_the_staleness_and_never_exceeds_it(staleness):
    race = Race({"staleness": staleness})
    for slow in range(4):
        assert race.settled(slow + staleness) == slow + staleness
        assert race.done[1] == slow
        race.release()
        deadline = time.monotonic() + 20
        while race.done[1] == slow and time.monotonic() < deadline:
            time.sleep(0.01)
    server = race.made.workers[0].servers[0]
    server.wait_for(4, 20)  # a step ends when its gradients are sent
    rounds = server.rounds
    race.close()
    assert not race.failures
    assert rounds == 4


def test_without_a_bound_nobody_waits():
    race = Race({"sync": False})
    assert race.settled(12) == 12
    assert race.done[1] == 0
    race.made.workers[0].settle([12, 0])
    rounds = race.made.workers[0].servers[0].rounds
    race.close()
    assert rounds == 12


def test_a_sender_far_ahead_of_an_asynchronous_server_waits():
    made = running(least_squares(0.01), (X, Y), {"sync": False})
    (server,) = made.workers[0].servers
    with server._changed:  # the server counts a round under its lock, so it stands still after one
        done = []

        def run():
            try:
                for _ in range(40):
                    made.workers[0].step((X, Y))
                    done.append(1)
            except tf.errors.OpError:
                return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while len(done) < 9 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert len(done) == 9  # four for each of two senders, and the one that is being counted
    server.stop()
    thread.join(20)
    made.close()


@pytest.mark.parametrize("staleness", [1, 2])
def test_the_number_of_updates_is_that_of_the_steps(staleness):
    made = running(many_kinds(), BATCHES[0], {"staleness": staleness}, THREE)
    outputs = [made.step(*batch) for batch in BATCHES]
    for worker in made.workers:
        worker.settle([len(BATCHES)] * 2)
    rounds = [server.rounds for worker in made.workers for server in worker.servers]
    values = made.values()
    made.close()
    assert rounds == [len(BATCHES)] * len(rounds)
    assert rounds
    loss, rows = outputs[0][1]  # of the second worker: of its own examples
    assert rows.shape == (4, 3)
    np.testing.assert_allclose(loss, np.mean(np.square(rows - 0.3)), rtol=1e-5)
    assert [int(seen) for seen in values["seen"]] == [3 + 2 + 3, 4 + 3 + 4]  # what each has seen itself


def test_a_server_that_fails_ends_the_steps():
    w = tf.Variable([[1.0]] * 4, name="w")

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w - y))
        gradient = tape.gradient(loss, w)
        w.assign_sub(tf.debugging.check_numerics(gradient, "no gradient to go by"))
        return loss

    made = running(step, (X, Y), {"sync": False})
    ended = False
    for _ in range(40):
        try:
            made.workers[1].step((X * np.float32(np.nan), Y))
        except tf.errors.OpError:
            ended = True
            break
    assert ended
    (server,) = made.workers[0].servers
    with pytest.raises(tf.errors.InvalidArgumentError, match="no gradient to go by"):
        server.check()
    made.close()


def test_rounds_that_cannot_come_together_are_told():
    serving = Serving("w", (), (), ("w",), messages=(1, 1), per_round=2)
    closed = threading.Event()
    server = Server(serving, lambda: closed.wait(20) and 1 / 0, closed.set)
    assert server.expected_rounds([3, 3]) == 3
    with pytest.raises(UsageError, match="3, 4 steps"):
        server.expected_rounds([3, 4])
    server.stop()
