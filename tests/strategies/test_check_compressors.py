"""Compressors that don't fit are refused, with all reasons at once."""

import pytest

from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    verify,
)

from .examples import graph, spec, variable

D = spec("h0", "h1")
PS = PSSynchronizer("h0:CPU:0")
HOROVOD = AllReduceSynchronizer(0, communicator="horovod")
COLLECTIVE = AllReduceSynchronizer(0, communicator="collective")


def problems(synchronizer, compressor, *, shape=(64, 48), dtype="float32", sparse=False):
    """(allowed, reason) of each problem with one variable's compressor."""
    communicator = "collective" if synchronizer is COLLECTIVE else "horovod"
    config = VariableConfig.whole("w", synchronizer, compressor)
    plan = Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), communicator), (config,))
    found = verify(
        plan, graph(variable("w", shape, dtype, sparse)), D, available_communicators=("horovod", "collective")
    )
    assert {(p.variable, p.given) for p in found if p.aspect == "compressor"} <= {("w", repr(compressor))}
    return [(p.allowed, p.reason) for p in found if p.aspect == "compressor"]


@pytest.mark.parametrize("synchronizer", [PS, HOROVOD, COLLECTIVE], ids=["PS", "horovod", "collective"])
@pytest.mark.parametrize(
    "compressor",
    [None, "FP16", "ErrorFeedback(FP16)", "TopK", "ErrorFeedback(TopK(ratio=0.1))", "RandomK", "OneBit"],
)
def test_compressors_that_fit_are_not_refused(synchronizer, compressor):
    for dtype in ("float32", "float64"):
        assert problems(synchronizer, compressor, dtype=dtype) == []


def test_an_unknown_compressor():
    ((allowed, reason),) = problems(PS, "fp-16")
    assert allowed.startswith("null or one of BF16, ErrorFeedback, FP16, ")
    assert reason == "the compressor `fp-16` is unknown, did you mean `FP16`?"


def test_wrong_parameters_are_listed():
    ((_, reason),) = problems(PS, "RandomK(ratio=2, seed=-1)")
    assert reason.startswith("`RandomK(ratio=2, seed=-1)` has 2 mistakes: `ratio` is 2, allowed:")
    assert "; `seed` is -1, allowed:" in reason
    assert "\n" not in reason


@pytest.mark.parametrize("compressor", ["PowerSGD", "ErrorFeedback(PowerSGD(rank=2))"])
def test_power_sgd_is_for_collectives(compressor):
    ((allowed, reason),) = problems(PS, compressor)
    assert allowed == "AllReduce, or a compressor that sends one message"
    assert reason.startswith("it sends 2 messages")
    assert problems(HOROVOD, compressor) == problems(COLLECTIVE, compressor) == []
    assert problems(PS, compressor, shape=(64,)) == []  # which is sent as it is


@pytest.mark.parametrize("server", [PSSynchronizer("h0:CPU:0", sync=False), PSSynchronizer("h0:CPU:0", staleness=1)])
def test_random_k_needs_steps_in_step(server):
    ((_, reason),) = problems(server, "ErrorFeedback(RandomK)")
    assert "same step" in reason
    assert problems(server, "ErrorFeedback(TopK)") == []


def test_horovod_has_no_bfloat16():
    assert problems(HOROVOD, "BF16") == [
        ("one that sends float16 or float32 or float64, or another communicator", "horovod can't sum bfloat16")
    ]
    assert problems(HOROVOD, "ErrorFeedback(BF16)")
    assert problems(COLLECTIVE, "BF16") == problems(PS, "BF16") == []
    assert problems(HOROVOD, "BF16", sparse=True) == []  # gathered, not summed


@pytest.mark.parametrize("compressor", ["TopK", "RandomK", "OneBit", "PowerSGD", "ErrorFeedback(FP16)"])
def test_only_casts_are_for_sparse_gradients(compressor):
    found = problems(PS, compressor, sparse=True)
    assert [allowed for allowed, _ in found] == ["null, 'FP16' or 'BF16'"]
    for cast in ("FP16", "BF16"):
        assert problems(PS, cast, sparse=True) == problems(COLLECTIVE, cast, sparse=True) == []


@pytest.mark.parametrize("compressor", ["FP16", "OneBit", "PowerSGD"])
@pytest.mark.parametrize("dtype", ["int32", "complex64"])
def test_integers_and_complex_numbers_are_not_encoded(compressor, dtype):
    ((allowed, reason),) = problems(PS, compressor, dtype=dtype)
    assert allowed == "null"
    assert reason == f"the gradient is {dtype}, and only float16, bfloat16, float32, float64 can be encoded"


def test_positions_are_31_bits():
    ((_, reason),) = problems(PS, "ErrorFeedback(TopK)", shape=(2**16, 2**15))
    assert reason == "it has 2147483648 entries, and positions are 31 bits: partition the variable"


def test_each_shard_is_looked_at():
    shards = (ShardConfig(COLLECTIVE, "PowerSGD(rank=1)"), ShardConfig(COLLECTIVE, "zip"))
    plan = Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "collective"), (VariableConfig("w", shards, (2, 1)),))
    found = verify(plan, graph(variable("w", (4, 4))), D, available_communicators=("collective",))
    assert [p.given for p in found if p.aspect == "compressor"] == ["'zip'"]
