"""Replicas share ragged and sparse batches, and train as one device does."""

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import UsageError
from tests.quick import slow_but

from . import ragged_cases
from .programs import TWO, run_distributed, run_plain

pytestmark = pytest.mark.usefixtures("doubles")


def compare(program, **options):
    expected, found = run_plain(program), run_distributed(program, **options)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)
    start = [v.numpy() for v in ragged_cases.variables().values()]
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(start, found[1:], strict=True))


QUICK = (
    "sums", "made_dense", "attention_between_words", "words_to_predict_by_example", "sparse_rows_that_meet",
    "in_batch_negatives", "words_that_are_even", "each_text_by_itself",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_but(QUICK, ragged_cases.CASES))
def test_losses(name, caplog):
    caplog.set_level("INFO", "autodist")
    compare(ragged_cases.program(ragged_cases.CASES[name]))
    assert "can't share" not in caplog.text
    assert "whole" not in caplog.text


def times_the_number_of_examples(v, w, y, **_):
    return y.shape[0] * ragged_cases.CASES["sums"](v, w=w, y=y)


def test_a_loss_that_replicas_can_not_share(caplog):
    """It asks how many rows there are, and the scope says that each replica has a loss of its own: all take all."""
    caplog.set_level("INFO", "autodist")
    compare(ragged_cases.program(times_the_number_of_examples), gradient_reduction="mean")
    assert "replicas can't share the ragged or sparse batches of a step" in caplog.text
    assert caplog.text.count("every replica computes such a batch whole") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ragged_cases.CASES)
def test_losses_on_three_replicas_and_servers(name):
    spec = autodist.ResourceSpec.local(cpus=3)
    compare(ragged_cases.program(ragged_cases.CASES[name], "SGD"), spec=spec, strategy="PSLoadBalancing")


def batches_of(widths, rows=(6, 5, 6, 4, 6)):
    """Batches of words, numbers, sparse rows and texts of one length, made by hand."""
    random = np.random.default_rng(0)
    for size, width in zip(rows, widths, strict=True):
        lengths = random.integers(1, width + 1, size)
        yield {
            "w": tf.RaggedTensor.from_row_lengths(random.integers(0, ragged_cases.WORDS, lengths.sum()), lengths),
            "y": random.normal(size=size),
            "m": tf.sparse.from_dense(random.normal(size=(size, ragged_cases.WORDS))),
            "f": tf.RaggedTensor.from_uniform_row_length(random.integers(0, ragged_cases.WORDS, 4 * size), 4),
        }


def by_numbers_of_rows(v, w, y, m, **_):
    return ragged_cases.CASES["sums"](v, w=w, y=y) / ((w.shape[0] or 17) + (m.shape[0] or 17) + m.shape[1])


def of_texts_of_one_length(v, f, y, **_):
    found = tf.reshape(tf.gather(v["e"], f.to_tensor()), [-1, f.shape[1] * ragged_cases.WIDTH])
    return ragged_cases.squared(v, found[:, :3] + found[:, -3:], y) / f.shape[1]


def with_random_numbers(v, w, y, **_):
    found = tf.ragged.map_flat_values(lambda words: tf.nn.dropout(tf.gather(v["e"], words), 0.5), w)
    return ragged_cases.squared(v, tf.reduce_sum(found, 1), y)


@pytest.mark.parametrize(
    "loss", [by_numbers_of_rows, pytest.param(of_texts_of_one_length, marks=pytest.mark.slow), with_random_numbers]
)
def test_python_sees_what_it_sees_on_one_device(loss):
    """Shapes in the step's Python code; and random numbers go on where a batch is padded to another width."""
    compare(by_hand(loss))


def by_hand(loss):
    def run(scope):
        with scope():
            known = ragged_cases.variables()
            learned = list(known.values())

            @tf.function
            def step(batch):
                with tf.GradientTape() as tape:
                    value = tf.autograph.experimental.do_not_convert(loss)(known, **batch)
                for variable, slope in zip(learned, tape.gradient(value, learned), strict=True):
                    if slope is not None:
                        variable.assign_sub(0.1 * tf.convert_to_tensor(slope))
                return value

            losses = [float(step(batch)) for batch in batches_of((3, 9, 5, 2, 20))]
        return [losses, *(v.numpy() for v in learned)]

    return run


def test_a_scope_of_workers_own_batches():
    """Elements of `ad.shard` are whole batches there as well."""
    compare(ragged_cases.program(ragged_cases.CASES["sums"]), batch="local")


def test_programs_of_arrays_take_dense_ones():
    texts = tf.ragged.constant([[1.0, 2.0], [3.0]])
    with autodist.scope(**TWO) as ad:
        total = ad.function(lambda x: tf.reduce_sum(x), arrays=True)
        with pytest.raises(UsageError, match="is given a RaggedTensor") as raised:
            total(texts)
    assert "to_tensor" in raised.value.hint
