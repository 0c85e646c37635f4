"""What refusals of programs advise (several steps, sessions, data) is done here, and trains as one device does."""

import contextlib
from dataclasses import dataclass, replace
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from certify.partitioned.strategies import InParts

import autodist
from autodist.errors import CaptureError, StrategyError
from autodist.search.tilings import Tiled
from autodist.strategies import PS, AllReduce, PartitionedPS, PSSynchronizer, Strategy, StrategyBuilder

from .programs import TWO
from .remedies import IDS, Plain, X, Y, assert_trains, batches, found_by, square, variable

v1 = tf.compat.v1


BUILDERS: list[StrategyBuilder] = []


@dataclass(frozen=True)
class InTurn(StrategyBuilder):
    """Builds for each step by the next of some builders."""

    name: ClassVar[str] = "InTurn"

    def build(self, graph, spec):
        return BUILDERS.pop(0).build(graph, spec)


@dataclass(frozen=True)
class Apart(StrategyBuilder):
    """Puts every variable at a server of its own."""

    name: ClassVar[str] = "Apart"

    def build(self, graph, spec):
        built = PS().build(graph, spec)
        configs = [
            replace(
                c, shards=(replace(c.shards[0], synchronizer=PSSynchronizer(f"localhost:CPU:{_last(c.variable)}")),)
            )
            for c in built.variables
        ]
        return Strategy(built.graph, tuple(configs))


def _last(name):
    return int(name.rstrip("#1").endswith("second"))


def two_trained(ad, *clipped, scopes=False):
    """Two variables, which steps train together, by the norm of both, or apart from each other."""
    first, second = tf.Variable(tf.fill((4, 1), 0.2), name="first"), tf.Variable(tf.fill((4, 1), 0.1), name="second")

    def step_of(norm):
        optimizer = keras.optimizers.SGD(0.1, global_clipnorm=norm)
        optimizer.build([first, second])

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = square(x @ (first + second) - y)
            optimizer.apply_gradients(zip(tape.gradient(loss, [first, second]), [first, second], strict=True))
            return loss

        return step

    steps, losses = [step_of(norm) for norm in clipped], []
    for batch in batches():
        for step in steps:
            with autodist.scope(**TWO, strategy=scopes) if scopes else contextlib.nullcontext():
                losses.append(step(*batch).numpy())
    return first.numpy(), second.numpy(), losses


BUILT = {
    "servers": PS(),
    "all-reduce": AllReduce(),
    "parts on servers": PartitionedPS(),
    "tiles": Tiled(dims=("first*=0", "*=whole")),
}


QUICK = {("servers", "all-reduce"), ("all-reduce", "servers"), ("tiles", "parts on servers")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(first, second, marks=() if (first, second) in QUICK else pytest.mark.slow)
        for first in BUILT
        for second in BUILT
    ],
)
def test_a_variable_has_one_kind_of_synchronizer_in_all_steps(first, second):
    """A builder knows one step only; `auto` ended runs that train once more with layers that were frozen before."""
    BUILDERS[:] = [BUILT[first], BUILT[second]]
    assert_trains(two_trained, None, None, strategy=InTurn())
    BUILDERS[:] = [BUILT[first], BUILT[second]]
    assert_trains(thawed, strategy=InTurn())


def thawed(ad):
    """A head is trained, and then all."""
    body, head = tf.Variable(tf.fill((4, 4), 0.2), name="body"), tf.Variable(tf.fill((4, 1), 0.1), name="first_head")
    losses = []
    for trained in ([head], [body, head]):
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(trained)

        @tf.function
        def step(x, y, trained=trained, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = square(tf.tanh(x @ body) @ head - y)
            optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained, strict=True))
            return loss

        losses += [step(*batch).numpy() for batch in batches()]
    return body.numpy(), head.numpy(), losses


def test_steps_in_scopes_of_their_own():
    expected = two_trained(Plain, None, None)
    for one, other in zip(expected, two_trained(Plain, None, None, scopes="PS"), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def test_variables_that_a_later_step_trains_together():
    BUILDERS[:] = [Apart(), PS()]
    with pytest.raises(StrategyError, match="updates variables together that an earlier step keeps apart"):
        found_by(two_trained, None, 0.5, strategy=InTurn())
    assert_trains(two_trained, None, 0.5, strategy=AllReduce())
    BUILDERS[:] = [PS(), Apart()]
    assert_trains(two_trained, 0.5, None, strategy=InTurn())


@pytest.mark.parametrize("strategy", [InParts("servers"), InParts("collective")], ids=lambda built: built.laying)
def test_a_later_step_that_needs_a_whole_variable(strategy):
    def program(ad, *clipnorms, scopes=None):
        weight, losses = tf.Variable(tf.fill((160, 160), 0.01)), []
        x = np.random.default_rng(2).normal(size=(3, 8, 160)).astype("float32")

        def step_of(clipnorm):
            optimizer = keras.optimizers.SGD(0.1, clipnorm=clipnorm)
            optimizer.build([weight])

            @tf.function
            def step(batch):
                with tf.GradientTape() as tape:
                    loss = square(batch @ weight - batch)
                optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
                return loss

            return step

        steps = [step_of(clipnorm) for clipnorm in clipnorms]
        for batch in x:
            for step in steps:
                with autodist.scope(**TWO, strategy=scopes) if scopes else contextlib.nullcontext():
                    losses.append(step(batch).numpy())
        return weight.numpy(), losses

    with pytest.raises(StrategyError, match="partitioned in another step of the scope, and can't be in this one"):
        found_by(program, None, 0.01, strategy=strategy)
    assert_trains(program, None, 0.01, strategy="AllReduce")
    for one, other in zip(program(Plain, None, 0.01), program(Plain, None, 0.01, scopes=strategy), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def in_a_session(build, cpus):
    """The losses and the weight of a graph in a session of so many replicas."""
    ad = autodist.AutoDist(spec=autodist.ResourceSpec.local(cpus=cpus))
    with tf.Graph().as_default(), ad.scope():
        weight = v1.get_variable("weight", [4, 1], initializer=v1.ones_initializer(), use_resource=True)
        return build(ad, weight)


def trained_in(ad, loss, weight, feeds):
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = ad.Session()
    session.run(v1.global_variables_initializer())
    losses = [session.run([loss, train], feed)[0] for feed in feeds]
    return [*losses, *session.run(weight).ravel()]


def fed_with_parts_of_a_sparse_tensor(ad, weight):
    """What lies in a sparse tensor, one value per row, is fed as its columns and its values."""
    columns, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None])
    loss = square(values * tf.gather(weight[:, 0], columns) - 2.0)
    return trained_in(
        ad, loss, weight, [{columns: IDS[:8] % 4, values: X[:8, 0]}, {columns: IDS[8:] % 4, values: X[8:, 0]}]
    )


def fed_instead_of_a_queue(ad, weight):
    x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 1])
    loss = square(x @ weight - y)
    return trained_in(ad, loss, weight, [{x: X[:8], y: 2 * Y[:8]}, {x: X[8:], y: 2 * Y[8:]}])


def drawn_from_an_iterator(ad, weight):
    iterator = v1.data.make_initializable_iterator(v1.data.Dataset.from_tensor_slices((X, 2 * Y)).batch(8))
    x, y = iterator.get_next()
    loss = square(x @ weight - y)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = ad.Session()
    session.run([v1.global_variables_initializer(), iterator.initializer])
    losses = [session.run([loss, train])[0] for _ in range(3)]
    return [*losses, *session.run(weight).ravel()]


@pytest.mark.parametrize("build", [fed_with_parts_of_a_sparse_tensor, fed_instead_of_a_queue, drawn_from_an_iterator])
def test_what_sessions_take_instead(build):
    one, two = in_a_session(build, 1), in_a_session(build, 2)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    assert not np.allclose(two[-4:], 1.0)


def test_what_a_step_may_return():
    def program(ad, pack):
        weight = variable(4, 1)

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = square(x @ weight - y)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            return pack(loss)

        return weight, [step(*batch) for batch in ad.shard(batches())]

    with pytest.raises(CaptureError, match="returns something that is not a tensor"):
        found_by(program, lambda loss: {"loss": loss, "by": object()}, strategy="AllReduce")
    assert_trains(program, lambda loss: {"loss": [loss, (loss * 2, 3)]}, strategy="AllReduce")
    assert found_by(program, lambda loss: None, strategy="AllReduce")[1] == np.array(None)
