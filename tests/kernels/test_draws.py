"""Random numbers of replicas are those of one device, or differ by example at least; all of it repeats."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError
from autodist.kernels.replicate._random_seeds import _offset
from tests.runtime.programs import TWO

X = np.tile(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), (2, 1))  # the replicas' parts are equal
AS_FAR_AS_DRAWN = ("stateful", "compiled", "branch")  # these go on behind as many numbers as a replica has drawn
BATCHES = (X, X, X[:5])


class Sources:
    """One of every kind of random op, and the states of the generators."""

    def __init__(self):
        keras.utils.clear_session()  # and the global generator with it
        keras.utils.set_random_seed(1)
        self.generators = [tf.random.Generator.from_seed(k) for k in range(2)]
        self.seeds = keras.random.SeedGenerator(5)
        self.layers = [
            keras.layers.Dropout(0.5),
            keras.layers.GaussianNoise(1.0),
            keras.layers.AlphaDropout(0.5),
            keras.layers.SpatialDropout1D(0.5),
        ]

    @property
    def states(self):
        seeds = [self.seeds, *(layer.seed_generator for layer in self.layers)]
        return [generator.state.numpy() for generator in self.generators] + [s.state.numpy() for s in seeds]

    def by_example(self, x):
        """Draws with a row per example."""
        shape, seeds = tf.shape(x), self.seeds
        draws = keras.random
        first, second = self.generators
        dropout, noise, alpha, spatial = self.layers
        return {
            "normal": draws.normal(shape, seed=seeds),
            "truncated": draws.truncated_normal(shape, seed=seeds),
            "integers": draws.randint(shape, 0, 1000, seed=seeds),
            "categories": draws.categorical(tf.zeros_like(x), 6, seed=seeds),
            "gamma": draws.gamma(shape, 2.0, seed=seeds),
            "beta": draws.beta(shape, 2.0, 2.0, seed=seeds),
            "binomial": draws.binomial(shape, 10.0, 0.5, seed=seeds),
            "constant seed": draws.uniform(shape, seed=7),
            "global generator": draws.uniform(shape),
            "dropout": dropout(tf.ones_like(x), training=True),
            "noise": noise(x, training=True),
            "alpha dropout": alpha(x, training=True),
            "spatial dropout": spatial(tf.ones_like(x)[:, tf.newaxis], training=True)[:, 0],
            "generator": first.uniform(shape),
            "next generator": second.uniform(shape),
            "generator, normal": first.truncated_normal(shape),
            "split": tf.random.stateless_uniform(shape, first.make_seeds()[:, 0]),
            "stateless": tf.random.stateless_truncated_normal(shape, [1, 2]),
            "stateless, old": tf.raw_ops.StatelessRandomNormal(shape=shape, seed=[1, 2]),
            "stateful": tf.random.uniform(shape),
            "stateful, truncated": tf.random.truncated_normal(shape),
            "stateful, categories": tf.random.categorical(tf.zeros_like(x), 6),
            "stateful, gamma": tf.random.gamma(shape, 2.0),
            "stateful dropout": tf.nn.dropout(tf.ones_like(x), 0.5),
            "compiled": tf.function(lambda: tf.nn.dropout(tf.ones_like(x), 0.5), jit_compile=True)(),
            "branch": tf.cond(tf.reduce_sum(x) > -1e9, lambda: tf.random.uniform(shape), lambda: x),
            "loop": tf.map_fn(lambda row: row + tf.random.stateless_uniform([4], [3, 4]), tf.zeros_like(x)),
        }

    def for_the_batch(self, x):
        """Draws that are made once, whatever the batch."""
        sampled = tf.random.log_uniform_candidate_sampler(tf.ones([tf.shape(x)[0], 1], tf.int64), 1, 4, True, 1000)
        return {
            "scale": keras.random.uniform([4], seed=self.seeds),
            "generator": self.generators[0].normal([4]),
            "stateful": tf.random.normal([4]),
            "sampled": sampled.sampled_candidates,
        }


def run(options):
    """The draws of each step, the weight that they lead to, and the generators' states."""
    sources, weight = Sources(), tf.Variable(tf.ones([4, 1]))

    def step(x):
        draws = sources.by_example(x), sources.for_the_batch(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((draws[0]["dropout"] * x) @ weight)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return draws

    with autodist.scope(**options) as ad:
        function = ad.function(step)
        found = [tf.nest.map_structure(np.asarray, function(x)) for x in BATCHES]
    return found, weight.numpy(), sources.states


@pytest.fixture(scope="module")
def one():
    return run({})


@pytest.fixture(scope="module")
def two():
    return run(TWO)


@pytest.fixture(scope="module")
def apart():
    """Where each replica computes its own loss, it draws its own numbers."""
    return run({**TWO, "gradient_reduction": "mean"})


def test_draws_by_example_are_those_of_one_device(one, two):
    for (expected, _), (found, _) in zip(one[0], two[0], strict=True):
        for name, draws in found.items():
            np.testing.assert_array_equal(draws, expected[name], err_msg=name)
    np.testing.assert_allclose(two[1], one[1], rtol=1e-6)


def test_draws_by_example_differ_by_replica(one, apart):
    for k, ((expected, _), (found, _)) in enumerate(zip(one[0], apart[0], strict=True)):
        for name, draws in found.items():
            if k == 0 or not name.startswith(AS_FAR_AS_DRAWN):
                np.testing.assert_array_equal(draws[:3], expected[name][:3], err_msg=name)  # those of the first replica
            assert not np.array_equal(draws[3:], draws[: len(draws) - 3]), name
    first, last = apart[0][0][0]["generator"], apart[0][0][0]["next generator"]
    assert not np.array_equal(first[3:], last[:3])  # whose seed is the next number


def test_draws_for_the_batch_are_those_of_one_device(one, two):
    for (_, expected), (_, found) in zip(one[0], two[0], strict=True):
        for name, draws in found.items():
            np.testing.assert_array_equal(draws, expected[name], err_msg=name)


def test_generators_advance_as_on_one_device(one, two):
    for expected, found in zip(one[2], two[2], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_same_seed_gives_the_same_run(two):
    again = run(TWO)
    tf.nest.map_structure(np.testing.assert_array_equal, again, two)
    assert not np.array_equal(two[1], np.ones([4, 1]))


def drawn_in_a_loop(x):
    seeds = keras.random.SeedGenerator(3)
    return lambda x: tf.map_fn(lambda row: row * keras.random.uniform([4], seed=seeds), x)


def drawn_while_advancing(x):
    generator = tf.random.Generator.from_seed(3)
    return lambda x: generator.binomial(tf.shape(x), counts=[9.0] * 4, probs=[0.5] * 4, dtype=tf.float32)


@pytest.mark.parametrize("make", [drawn_in_a_loop, drawn_while_advancing])
def test_generators_that_replicas_would_advance_are_refused(make):
    draw, weight = make(X), tf.Variable(tf.ones([4, 1]))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((draw(x) * x) @ weight)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    refused = pytest.raises(CaptureError, match=r"op `.*` .* at .*test_draws.py:\d+ changes `.*`.* once per replica")
    with autodist.scope(**TWO, gradient_reduction="mean") as ad, refused:
        ad.function(step)(X)


@pytest.mark.parametrize("make", [drawn_in_a_loop, drawn_while_advancing])
def test_generators_advance_once_for_the_whole_batch(make):
    found = []
    for options in ({}, TWO):
        draw, weight = make(X), tf.Variable(tf.ones([4, 1]))

        def step(x, draw=draw, weight=weight):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((draw(x) * x) @ weight)
            weight.assign_sub(tape.gradient(loss, weight))
            return loss

        with autodist.scope(**options) as ad:
            function = ad.function(step)
            found.append([float(function(x)) for x in BATCHES] + weight.numpy().tolist())
    np.testing.assert_allclose(np.ravel(found[1][3:]), np.ravel(found[0][3:]), rtol=1e-5)
    np.testing.assert_allclose(found[1][:3], found[0][:3], rtol=1e-5)
    assert np.abs(np.ravel(found[0][3:]) - 1.0).max() > 1e-3


def test_offsets_fit_their_dtypes():
    for dtype in ("int32", "int64", "uint64"):
        offsets = [_offset(replica, dtype) for replica in range(1000)]
        assert offsets[0] == 0
        assert len(set(offsets)) == 1000
        np.asarray(offsets, dtype)
