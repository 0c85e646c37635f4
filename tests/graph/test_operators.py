"""What is said of operators is what their kernels do."""

import pytest

from autodist.graph.operators import OPERATORS
from autodist.testing.conformance import check_operator
from tests.graph.operator_samples import WITHOUT, pointwise_samples, samples

SAMPLES = {**pointwise_samples(), **samples()}


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_tiles_together_give_the_whole(op):
    assert check_operator(OPERATORS[op], SAMPLES[op])


def test_every_index_expression_is_checked():
    described = {name for name, operator in OPERATORS.items() if operator.describe is not None}
    assert described - SAMPLES.keys() - WITHOUT.keys() == set()
