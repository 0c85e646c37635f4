"""Two workers train with compressors: the result, and the bytes that leave a host."""

from pathlib import Path

import numpy as np
import pytest

from autodist.compressors import get
from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.strategies import traffic

from .train import BATCH, Compressed

SCRIPT = Path(__file__).with_name("train.py")
SHAPE = (1200, 600)
NAMED = {"w": SHAPE, "b": SHAPE[1:]}
STEPS = 8
HOROVOD = "AllReduce(communicator='horovod')"
COLLECTIVE = "AllReduce(communicator='collective')"
SERVERS = "PSLoadBalancing"
TCP = "AllReduce(communicator='tcp')"
ONE_SERVER, PARTS = "PS(communicator='tcp')", "PartitionedPS(communicator='tcp')"
NAMES = {
    HOROVOD: "horovod", COLLECTIVE: "collective", SERVERS: "servers",
    TCP: "tcp", ONE_SERVER: "tcp one server", PARTS: "tcp parts",
}  # fmt: skip
REPLICAS = {HOROVOD: 1, COLLECTIVE: 2, SERVERS: 2, TCP: 2, ONE_SERVER: 2, PARTS: 2}

TOP_K, RANDOM_K = "ErrorFeedback(TopK(ratio=0.02))", "ErrorFeedback(RandomK(ratio=0.05))"
POWER_SGD = "ErrorFeedback(PowerSGD(rank=16))"
QUICK = {
    SERVERS: ("", TOP_K, "OneBit"), TCP: ("",), ONE_SERVER: ("",), PARTS: ("",), HOROVOD: ("", "FP16", POWER_SGD),
}  # fmt: skip
"""Servers first: once Horovod has started, its workers talk all the time, and that counts as sent."""
SLOW = {
    HOROVOD: ("", TOP_K, RANDOM_K, "OneBit", "ErrorFeedback(FP16)"),
    COLLECTIVE: ("", "FP16", "BF16", TOP_K, RANDOM_K, "OneBit", POWER_SGD, "PowerSGD(rank=8)", "ErrorFeedback(BF16)"),
    SERVERS: ("", "FP16", "BF16", RANDOM_K, "ErrorFeedback(FP16)"),
}
LATE = ("FP16", TOP_K, "OneBit")
LATE_BUILDERS = ("PS(sync=False)", "PS(staleness=1)", "PS(local_proxy=True)")
ERROR = {
    "FP16": 1e-3,
    "BF16": 1e-2,
    "ErrorFeedback(FP16)": 1e-3,
    "ErrorFeedback(BF16)": 1e-2,
    TOP_K: 0.9,
    RANDOM_K: 0.95,
    "OneBit": 0.5,
    POWER_SGD: 0.5,
    "PowerSGD(rank=8)": 1e-2,  # 8 is the rank of a gradient from 8 examples
}
"""How far the weights may be from those of the uncompressed run, relative to these, in the 2-norm."""


class Runs:
    """What each rank found, by builder and compressor; one launch for all that is quick, else one per builder."""

    def __init__(self, directory):
        self._directory = directory
        self._found = {}

    def __call__(self, builder, compressor):
        if compressor in QUICK.get(builder, ()):
            return self._of("quick", [(one, other) for one in QUICK for other in QUICK[one]], 2)[builder, compressor]
        plans = [(builder, other) for other in SLOW[builder]]
        return self._of(builder, plans, REPLICAS[builder])[builder, compressor]

    def late(self, builder, compressor):
        return self._of(builder, [(builder, other) for other in LATE], 1)[builder, compressor]

    def _of(self, key, plans, replicas):
        if key not in self._found:
            self._found[key] = self._launch(plans, replicas)
        return self._found[key]

    def _launch(self, plans, replicas):
        directory = self._directory / str(len(self._found))
        directory.mkdir()
        shape = "x".join(map(str, SHAPE))
        told = [f"{builder}|{compressor}|{shape}|{STEPS}" for builder, compressor in plans]
        spec = ResourceSpec.local(workers=2, cpus=replicas)
        # Else Horovod's workers talk every millisecond, whether there is something to reduce or not.
        env = {"HOROVOD_CYCLE_TIME": "10"}
        result = LocalLauncher().launch(Job(SCRIPT, spec, (str(directory), *told), env=env, run_dir=directory / "run"))
        assert result.exit_code == 0, result.failure
        return {
            plan: [dict(np.load(directory / f"{number}_{rank}.npz")) for rank in range(2)]
            for number, plan in enumerate(plans)
        }


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("compressors"))


def cases():
    for kind in (QUICK, SLOW):
        for builder, compressors in kind.items():
            marks = [pytest.mark.horovod] if builder == HOROVOD else []
            marks += [pytest.mark.slow] if kind is SLOW else []
            for compressor in compressors if kind is QUICK else compressors[1:]:
                yield pytest.param(builder, compressor, marks=marks, id=f"{NAMES[builder]}-{compressor or 'none'}")


@pytest.mark.parametrize(("builder", "compressor"), [*cases()])
def test_workers_agree_and_the_loss_falls(runs, builder, compressor):
    first, second = runs(builder, compressor)
    for name in ("w", "b", "losses"):
        np.testing.assert_array_equal(first[name], second[name])
    assert first["losses"][-1] < first["losses"][0]
    if compressor:
        plain = runs(builder, "")[0]["w"]
        error = np.linalg.norm(first["w"] - plain) / np.linalg.norm(plain)
        assert 0 < error < ERROR[compressor]


@pytest.mark.parametrize(("builder", "compressor"), [*cases()])
def test_the_bytes_that_leave_a_host_are_those_of_the_messages(runs, builder, compressor):
    sent = sorted(float(found["sent"]) for found in runs(builder, compressor))
    variables = [Variable(n, n, shape, "float32", Role.TRAINABLE, (Gradient(dense=n),)) for n, shape in NAMED.items()]
    graph, spec = TrainingGraph(None, tuple(variables), (), (), ()), ResourceSpec.local(2, REPLICAS[builder])
    found = traffic(Compressed(builder, compressor).build(graph, spec), graph, spec, batch_size=BATCH)
    np.testing.assert_allclose(sent, sorted(found.sent.values()), rtol=0.05)


def message_bytes(compressor, shape):
    return get(compressor).message_bytes(shape, "float32") if compressor else 4 * int(np.prod(shape))


@pytest.mark.slow
@pytest.mark.parametrize("builder", LATE_BUILDERS)
@pytest.mark.parametrize("compressor", LATE)
def test_other_servers_take_messages_too(runs, builder, compressor):
    found = runs.late(builder, compressor)
    for one in found:
        assert np.mean(one["losses"][-3:]) < one["losses"][0]
        assert np.isfinite(one["w"]).all()
    messages = message_bytes(compressor, SHAPE) + message_bytes(compressor, SHAPE[1:])
    # The chief serves both variables, so the other worker sends nothing else.
    assert float(found[1]["sent"]) == pytest.approx(messages, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("compressor", ["FP16", TOP_K, RANDOM_K, "OneBit"])
def test_servers_and_collectives_decode_alike(runs, compressor):
    one, other = (runs(builder, compressor)[0]["w"] for builder in (COLLECTIVE, SERVERS))
    assert np.linalg.norm(one - other) <= 1e-3 * np.linalg.norm(one)
