"""What is said of operators is what their kernels do."""

import sys

import pytest
import tensorflow as tf

from autodist.errors import ConformanceFailed
from autodist.graph import VariableNames, capture
from autodist.graph.operators import OPERATORS, Access, Expression, Kind, Operator, is_kind, operator, operators
from autodist.registry import PluginWarning
from autodist.testing.conformance import check_operator

from .samples import SAMPLES, WITHOUT


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_tiles_together_give_the_whole(op):
    assert check_operator(OPERATORS[op], SAMPLES[op])


def test_every_index_expression_is_checked():
    described = {name for name, found in OPERATORS.items() if found.describe is not None}
    assert described - SAMPLES.keys() - WITHOUT.keys() == set()


def test_every_operator_that_draws_is_known_to():
    named = [op for op in dir(tf.raw_ops) if any(part in op for part in ("Random", "Multinomial", "CandidateSampler"))]
    drawing = [op for op in named if "Dataset" not in op]
    assert len(drawing) > 30
    assert [op for op in drawing if not is_kind(op, Kind.RANDOM)] == []


def test_what_a_kernel_does_not_do_is_found():
    def apart(signature):
        """Softmax as if each element were computed from itself."""
        sizes = dict(zip("bc", signature.inputs[0], strict=True))
        return Expression(sizes, (Access.by("b", "c"),), (Access.by("b", "c"),))

    with pytest.raises(
        ConformanceFailed, match=r"Softmax is not what its kernel does:\n.*`c` cut at .*differs"
    ) as info:
        check_operator(Operator("Softmax", Kind.BY_ROW, apart), SAMPLES["Softmax"])
    assert "`c` cut at (0, 1, 4): output 0 differs from that of the whole" in info.value.message
    assert "`b` cut" not in info.value.message


PACKAGE = """
from autodist.graph.operators import Kind, Operator, pointwise

COUNT = Operator("PopulationCount", Kind.ELEMENTWISE, pointwise)
RELU = Operator("Relu", Kind.ELEMENTWISE, pointwise)
"""
ENTRY_POINTS = """
[autodist.operators]
PopulationCount = plugin_ops:COUNT
Relu = plugin_ops:RELU
Lost = plugin_ops:LOST
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that describes operators, as pip installs it."""
    (tmp_path / "plugin_ops.py").write_text(PACKAGE)
    info = tmp_path / "plugin_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin_ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    operators.cache_clear()
    yield
    operators.cache_clear()
    sys.modules.pop("plugin_ops", None)


def ops_in_which_examples_meet():
    """Of a loss with an operator that none of ours describes."""

    def loss(x):
        ones = tf.raw_ops.PopulationCount(x=tf.cast(x, tf.int32))
        return tf.reduce_sum(x * tf.cast(ones, tf.float32))

    analysis = capture(loss, [tf.TensorSpec([8, 2])], VariableNames()).graph.analysis
    return {analysis.nodes[cause].op for cause in analysis.dependence.causes}


def test_operators_of_another_package_are_followed(installed):
    with pytest.warns(PluginWarning) as warned:
        assert operator("PopulationCount").kind is Kind.ELEMENTWISE
    told = sorted(str(warning.message) for warning in warned)
    assert [text.split("`")[1] for text in told] == ["Lost", "Relu"]
    assert "describes what is described already; it is left out" in told[1]
    assert not ops_in_which_examples_meet()


def test_an_operator_of_which_nothing_is_said_is_told_of():
    assert ops_in_which_examples_meet() == {"PopulationCount"}
