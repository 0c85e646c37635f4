"""What a worker knows of a batch by its part of it: how many rows it has, be they fewer than there are workers."""

from types import SimpleNamespace

import numpy as np
import pytest

from autodist.runtime._part_checks import PartChecks
from autodist.runtime._step_tracing import StepTracing
from autodist.runtime.data import LocalArray, flatten


def part(rows, of_rows):
    array = np.ones((rows, 2), np.float32).view(LocalArray)
    array.rows = of_rows
    return flatten((array,), {})


@pytest.mark.parametrize(("rows", "of_rows", "looked_at_with"), [(1, 1, 1), (0, 1, 1), (4, 9, 9), (4, None, 8)])
def test_steps_are_looked_at_with_the_rows_of_the_whole_batch(rows, of_rows, looked_at_with):
    """All workers with the same number: else one of them goes on, while the other one traces the step again."""
    asked = []
    tracing = object.__new__(StepTracing)
    tracing._worker = SimpleNamespace(world_size=2)
    tracing._parts = SimpleNamespace(check=lambda captured, arguments, rows: asked.append(rows))
    tracing.check_parts(None, part(rows, of_rows), local=True)
    assert asked == [looked_at_with]


def test_nothing_is_looked_at_with_an_empty_batch():
    captured = SimpleNamespace(concrete=part, graph=None)
    PartChecks(2, are_planned=True).check(captured, part(0, 0), 0)
