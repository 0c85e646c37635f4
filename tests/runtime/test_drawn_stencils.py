"""Random programs of arrays whose elements need their neighbours: what comes out is what one device finds."""

import logging
import subprocess
import sys

import pytest
import tensorflow as tf

import autodist
from autodist.graph.layouts import _argument_layouts, _plan, _plan_costs
from autodist.resource_spec import ResourceSpec

from . import drawn_stencils

COUNT = 24


@pytest.fixture
def bytes_alone(monkeypatch):
    for module in (_argument_layouts, _plan, _plan_costs):
        monkeypatch.setattr(module, "LATENCY_BYTES", 1)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(COUNT * k, marks=pytest.mark.slow) for k in range(1, 10))], ids=lambda k: f"from_{k}"
)
def test_programs_find_what_one_device_finds(first, bytes_alone, caplog):
    for seed in range(first, first + COUNT):
        program, array, dim, replicas = drawn_stencils.drawn(seed)
        expected = tf.function(program)(tf.constant(array))
        with caplog.at_level(logging.INFO, "autodist"), autodist.scope(ResourceSpec.local(cpus=replicas)):
            found = autodist.function(program, arrays=(dim,))(array)
        drawn_stencils.compare(found, expected, program)
    assert caplog.text.count("replicas have parts of `array`") > 0.8 * COUNT


@pytest.mark.parametrize(
    ("workers", "strategy"),
    [
        (3, "AllReduce(communicator='tcp')"),
        pytest.param(2, "Horovod", marks=pytest.mark.slow),
        pytest.param(4, "AllReduce(communicator='collective')", marks=pytest.mark.slow),
    ],
)
def test_workers_pass_each_other_what_they_need(workers, strategy, tmp_path):
    command = [sys.executable, "-m", "autodist", "run", drawn_stencils.__file__, "--workers", str(workers)]
    options = ["--allow-open-ports", "--strategy", strategy, "--", "100", str(COUNT)]
    result = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(f"{COUNT} programs are those of one device") == workers
    assert result.stderr.count("replicas have parts of `array`") > 0.8 * COUNT
