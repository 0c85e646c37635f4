"""Replicas share ragged and sparse batches, and train as one device does."""

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import UsageError

from . import ragged_cases
from .programs import TWO, run_distributed, run_plain

pytestmark = pytest.mark.usefixtures("doubles")


def compare(program, **options):
    expected, found = run_plain(program), run_distributed(program, **options)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)
    start = [v.numpy() for v in ragged_cases.variables().values()]
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(start, found[1:], strict=True))


@pytest.mark.parametrize("name", ragged_cases.CASES)
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
