"""Notes of tracing on the flat graph's nodes: where gradients are, where replicas join, how code was traced."""

from autodist.graph.annotations._attributes import attributed
from autodist.graph.annotations._by_tensors import INSIDE, RATIO, NestedDifferentiation, TensorGradient, by_of, ratio_of
from autodist.graph.annotations._gradient_marks import (
    GIVEN,
    MARK,
    SECOND,
    SEED,
    TARGET,
    GradientMark,
    adopt_marks,
    mark_gradients,
    marks_gradients,
    parse_mark,
)
from autodist.graph.annotations._own_backward import OWN_BACKWARD, mark_own_gradients
from autodist.graph.annotations._v1_marks import mark_v1_gradients
from autodist.graph.annotations._vectorized import mark_vectorized

__all__ = [
    "GIVEN",
    "INSIDE",
    "MARK",
    "OWN_BACKWARD",
    "RATIO",
    "SECOND",
    "SEED",
    "TARGET",
    "GradientMark",
    "NestedDifferentiation",
    "TensorGradient",
    "adopt_marks",
    "attributed",
    "by_of",
    "mark_gradients",
    "mark_own_gradients",
    "mark_v1_gradients",
    "mark_vectorized",
    "marks_gradients",
    "parse_mark",
    "ratio_of",
]
