"""What conversions are said to move is what two workers send each other, as the kernel counts. One launch for all."""

import json
import subprocess
import sys

import pytest
import tensorflow as tf

from autodist.cost.resharding import PARTIAL, WHOLE, shares_between
from autodist.graph import VariableNames, as_array_program, capture
from autodist.graph.layouts import Exchanged, cut_arguments
from autodist.resource_spec import Host, Mesh, ResourceSpec
from autodist.search.tilings import plan_tiling

from . import conversions

ROWS, COLUMNS = (0,), (1,)
TERMS, ALL = (PARTIAL,), (WHOLE,)
STATES = {
    "rows to whole": (ROWS, ALL),
    "columns to whole": (COLUMNS, ALL),
    "rows to columns": (ROWS, COLUMNS),
    "terms to whole": (TERMS, ALL),
    "terms to rows": (TERMS, ROWS),
    "terms to columns": (TERMS, COLUMNS),
    "whole to rows": (ALL, ROWS),
    "whole to columns": (ALL, COLUMNS),
}
SMALL_BYTES = 2000
"""What workers tell each other besides: that their arguments are the same, and a sum of one number."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Where both workers have written what they have sent, and the run what it says."""
    found = tmp_path_factory.mktemp("conversions")
    command = [sys.executable, "-m", "autodist", "run", conversions.__file__, "--workers", "2", "--run-dir", "run"]
    result = subprocess.run([*command, "--", str(found)], cwd=found, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return found


@pytest.fixture(scope="module")
def sent(directory):
    """By conversion, what each worker has sent."""
    ranks = [json.loads((directory / f"{rank}.json").read_text()) for rank in range(2)]
    return {name: [rank[name] for rank in ranks] for name in ranks[0]}


@pytest.mark.parametrize("name", STATES)
def test_what_is_sent_is_what_the_cost_of_resharding_says(name, sent):
    shares = shares_between((2,), 2)
    expected = shares.between(*STATES[name]) * conversions.SIZE_BYTES
    assert sum(sent[name]) == pytest.approx(expected, rel=0.05, abs=SMALL_BYTES)


@pytest.mark.parametrize("name", STATES)
def test_it_is_what_the_plan_of_the_function_says(name, sent):
    function, shapes, dims = conversions.CONVERSIONS[name]
    specs = [tf.TensorSpec(shape) for shape in shapes]
    captured, _ = as_array_program(capture(function, specs, VariableNames(), split=[False] * len(specs), fixed=True))
    cuts = cut_arguments(captured.graph, 2, 2, dims)
    assert sum(sent[name]) == pytest.approx(cuts.sent_bytes, rel=0.05, abs=SMALL_BYTES)


def test_a_plan_says_what_a_training_with_tiled_variables_sends(directory, sent):
    spec, said = ResourceSpec((Host("a", "a"), Host("b", "b"))), Exchanged.load(directory / "run" / "exchanged.json")
    step, batch = conversions.training()
    captured = capture(step, [tf.TensorSpec(array.shape) for array in batch], VariableNames(), rows=len(batch[0]))
    plan = plan_tiling(captured.graph.with_batch_size(len(batch[0])), Mesh.of(spec).flat())
    assert len(plan.cut_dims()) == 2
    assert sum(sent["training"]) == pytest.approx(plan.moved_bytes, rel=0.05)
    assert sum(sent["training"]) == pytest.approx(2 * sum(one.sent_bytes(2) for one in said), rel=0.05)
