"""What compressors send and decode, worker by worker."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from autodist.compressors import BF16, FP16, ErrorFeedback, OneBit, PowerSGD, RandomK, TopK

from .workers import Exchange

LOSSY = [FP16(), BF16(), TopK(0.1), RandomK(0.3), PowerSGD(2)]
WITH_FEEDBACK = [OneBit(), *map(ErrorFeedback, LOSSY)]
EVERY = [*LOSSY, *WITH_FEEDBACK]
EPS = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
HALF = {FP16(): 2.0**-11, BF16(): 2.0**-8}
"""Relative rounding errors."""


def normal(shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=shape).astype(tf.as_dtype(dtype).as_numpy_dtype)


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *(("float32", shape) for shape in [(), (17,), (12, 9), (6, 5, 4)]),
        *((dtype, (12, 9)) for dtype in ("float64", "float16", "bfloat16")),
    ],
)
def test_contributions_add_up_and_messages_have_their_size(compressor, dtype, shape):
    exchange = Exchange(compressor, shape, dtype, count=3)
    assert exchange.num_bytes == compressor.message_bytes(shape, dtype)
    for k in range(2):
        step = exchange.step([normal(shape, 3 * k + worker, dtype) for worker in range(3)])
        total = sum(own.astype(np.float64) for own in step.owns)
        scale = np.abs(total).max() + 1
        rounding = max(EPS[dtype], *(4 * HALF.get(c, 0) for c in (compressor, getattr(compressor, "inner", None))))
        for worker in range(3):
            assert step.totals[worker].shape == step.owns[worker].shape == shape
            assert step.totals[worker].dtype == step.owns[worker].dtype == normal(shape, dtype=dtype).dtype
            np.testing.assert_array_equal(step.totals[worker], step.totals[0])
            np.testing.assert_allclose(step.totals[worker].astype(np.float64), total, atol=rounding * scale)


@functools.cache
def exchange_of(compressor, shape, dtype):
    return Exchange(compressor, shape, dtype)


@pytest.mark.parametrize("compressor", WITH_FEEDBACK, ids=str)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gradients=arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.just(2), st.just(6), st.just(5)),
        elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3)),
    )
)
def test_what_is_sent_is_the_sum_of_the_gradients_but_for_the_residual(compressor, gradients):
    exchange = exchange_of(compressor, (6, 5), "float64")
    exchange.states = [{k: np.zeros_like(v) if k == "residual" else v for k, v in s.items()} for s in exchange.states]
    sent = np.zeros((2, 6, 5))
    for gradient in gradients:
        step = exchange.step(list(gradient))
        sent += np.stack(step.owns)
    residuals = np.stack([state["residual"] for state in exchange.states])
    bound = 1e-13 * len(gradients) * max(np.abs(gradients).max(), np.abs(residuals).max(), np.abs(sent).max())
    np.testing.assert_allclose(sent, gradients.sum(0) - residuals, rtol=0, atol=bound)


@pytest.mark.parametrize("compressor", WITH_FEEDBACK, ids=str)
def test_a_constant_gradient_arrives_in_the_end(compressor):
    """The residual stays bounded, so that the mean of what is sent converges to the gradient."""
    gradients = [normal((8, 6), seed) for seed in (1, 2)]
    exchange = Exchange(compressor, (8, 6))
    errors = []
    sent = np.zeros((8, 6))
    for number in range(1, 101):
        sent += exchange.step(gradients).totals[0]
        errors.append(np.abs(sent / number - sum(gradients)).max())
    on_the_way = HALF.get(getattr(compressor, "inner", None), 0)  # the sum's own rounding, which nobody sees
    scale = np.abs(sum(gradients)).max()
    assert errors[-1] < 0.2 * scale
    assert errors[-1] < max(0.6 * max(errors[:30]), on_the_way * scale)


@pytest.mark.parametrize("compressor", list(HALF), ids=str)
def test_casts_err_by_rounding_alone(compressor):
    gradients = [normal((1000,), seed) for seed in range(2)]
    step = Exchange(compressor, (1000,)).step(gradients)
    for own, gradient in zip(step.owns, gradients, strict=True):
        np.testing.assert_allclose(own, gradient, rtol=HALF[compressor])
    bound = 3 * HALF[compressor] * sum(map(np.abs, gradients))
    assert (np.abs(step.totals[0] - sum(gradients)) <= bound).all()
    assert (step.totals[0] != sum(gradients)).any()


HUGE = [(65504.0, "float32"), (3e38, "float32"), (1e300, "float64"), (3e38, "bfloat16")]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize(("huge", "dtype"), HUGE)
def test_float16_saturates_and_never_overflows(count, huge, dtype):
    gradient = np.array([huge, -huge, 1.0, 0.0]).astype(tf.as_dtype(dtype).as_numpy_dtype)
    step = Exchange(FP16(), (4,), dtype, count=count).step([gradient] * count)
    total = step.totals[0].astype(np.float64)
    assert np.isfinite(total).all()
    np.testing.assert_allclose(total[:2], [65504, -65504], rtol=2e-2)
    assert np.abs(total).max() <= (65536 if dtype == "bfloat16" else 65504)  # the same, rounded to 8 bits
    assert total[2:].tolist() == [count, 0]


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_not_hidden(compressor, bad):
    """Loss scaling has to see it."""
    gradient = np.full((8, 6), 0.01, np.float32)
    gradient[3, 2] = bad
    if "RandomK" in str(compressor):
        gradient[:] = bad
    step = Exchange(compressor, (8, 6)).step([np.full((8, 6), 0.01, np.float32), gradient])
    assert not np.isfinite(step.totals[0]).all()


def test_top_k_sends_the_largest():
    gradients = [np.array([[1.0, -5, 0, 2], [3, 0.5, -4, 0]]), np.array([[9.0, 0, 0, 0], [0, 0, -9, 1]])]
    step = Exchange(TopK(0.25), (2, 4), "float64").step(gradients)
    assert step.owns[0].tolist() == [[0, -5, 0, 0], [0, 0, -4, 0]]
    assert step.owns[1].tolist() == [[9, 0, 0, 0], [0, 0, -9, 0]]
    assert step.totals[0].tolist() == [[9, -5, 0, 0], [0, 0, -13, 0]]


@pytest.mark.parametrize(("ratio", "kept"), [(0.01, 1), (0.1, 10), (0.101, 11), (1, 100), (1e-9, 1)])
@pytest.mark.parametrize("kind", [TopK, RandomK])
def test_as_many_entries_are_kept_as_the_ratio_says(kind, ratio, kept):
    step = Exchange(kind(ratio), (10, 10)).step([np.ones((10, 10), np.float32)] * 2)
    assert np.count_nonzero(step.owns[0]) == kept
    assert np.count_nonzero(step.totals[0]) == kept if kind is RandomK else kept <= 2 * kept


def random_k_positions(compressor, steps, shape=(1000,)):
    exchange = Exchange(compressor, shape)
    ones = [np.ones(shape, np.float32)] * 2
    found = []
    for _ in range(steps):
        step = exchange.step(ones)
        np.testing.assert_array_equal(step.owns[0], step.owns[1])
        found.append(frozenset(np.flatnonzero(step.totals[0]).tolist()))
    return found


def test_random_k_draws_alike_on_all_workers_and_anew_in_each_step():
    found = random_k_positions(RandomK(0.1), 20)
    assert {len(positions) for positions in found} == {100}
    assert len(set(found)) == 20
    counts = np.bincount([p for positions in found for p in positions], minlength=1000)
    assert counts.sum() == 2000
    assert counts.max() <= 10  # of 20, at a probability of 0.1
    overlaps = [len(a & b) for a, b in itertools.pairwise(found)]
    assert max(overlaps) < 30  # 10 are expected
    assert found == random_k_positions(RandomK(0.1), 20)
    assert not set(found) & set(random_k_positions(RandomK(0.1, seed=1), 20))


def test_one_bit_by_hand():
    gradients = [np.array([1.0, 3, -2, 0, -4, 5, 1, 1, -1, -3]), np.full(10, -2.0)]
    exchange = Exchange(OneBit(), (10,), "float64")
    step = exchange.step(gradients)
    high, low = 11 / 5, -10 / 5
    first = np.where(gradients[0] > 0, high, low)
    np.testing.assert_allclose(step.owns[0], first)
    np.testing.assert_allclose(step.owns[1], gradients[1])
    np.testing.assert_allclose(step.totals[0], first - 2)
    np.testing.assert_allclose(step.states[0]["residual"], gradients[0] - first)
    assert exchange.num_bytes == 2 + 2 * 8
    again = exchange.step([np.zeros(10), np.zeros(10)])  # what was lost is sent now
    np.testing.assert_allclose(again.owns[0].sum(), (gradients[0] - first).sum(), atol=1e-12)


@pytest.mark.parametrize("shape", [(12, 9), (6, 5, 4)])
def test_power_sgd_is_exact_up_to_its_rank(shape):
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(shape[0], 1)) @ rng.normal(size=(1, int(np.prod(shape[1:]))))
    step = Exchange(PowerSGD(1), shape, "float64").step([matrix.reshape(shape), 2 * matrix.reshape(shape)])
    np.testing.assert_allclose(step.totals[0], 3 * matrix.reshape(shape), rtol=1e-10)


def test_power_sgd_converges_to_the_best_approximation():
    gradients = [normal((20, 15), seed, "float64") for seed in range(2)]
    exchange = Exchange(PowerSGD(2), (20, 15), "float64")
    errors = [np.linalg.norm(exchange.step(gradients).totals[0] - sum(gradients)) for _ in range(60)]
    best = np.sqrt((np.linalg.svd(sum(gradients))[1][2:] ** 2).sum())
    assert errors[-1] < 1.01 * best < errors[0]


def test_power_sgd_wakes_up_after_a_gradient_of_zeros():
    exchange = Exchange(PowerSGD(1), (6, 5), "float64")
    exchange.step([np.zeros((6, 5))] * 2)
    matrix = np.zeros((6, 5))
    matrix[4] = np.arange(5)  # not where the basis of a zero matrix points to
    np.testing.assert_allclose(exchange.step([matrix] * 2).totals[0], 2 * matrix, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (100,), (1, 100), (3, 3)])
def test_power_sgd_sends_small_gradients_as_they_are(shape):
    compressor = PowerSGD(2)
    gradients = [normal(shape, seed) for seed in range(2)]
    step = Exchange(compressor, shape).step(gradients)
    np.testing.assert_allclose(step.totals[0], sum(gradients), rtol=1e-6)
    assert compressor.message_bytes(shape, "float32") == 4 * np.prod(shape, dtype=int)
    assert compressor.rounds(shape, "float32") == 1


def test_message_sizes():
    shape = (1024, 1000)
    whole = 4 * 1024 * 1000
    assert FP16().message_bytes(shape, "float32") == BF16().message_bytes(shape, "float64") == whole // 2
    assert TopK(0.01).message_bytes(shape, "float32") == whole // 100 * 2
    assert RandomK(0.01).message_bytes(shape, "float32") == whole // 100
    assert OneBit().message_bytes(shape, "float32") == whole // 32 + 8
    assert PowerSGD(4).message_bytes(shape, "float32") == 4 * 4 * 2024
    assert ErrorFeedback(PowerSGD(4)).message_bytes(shape, "float32") == 4 * 4 * 2024
