"""Capture: from a single-device training step to a :class:`TrainingGraph`.

Importing this package does not import TensorFlow; capturing does.
"""

from autodist.graph._analysis import StepAnalysis, Write
from autodist.graph._capture import CapturedStep, VariableNames, capture
from autodist.graph._extent import Extent
from autodist.graph._factors import FactoredGradient, Factors, factors_of
from autodist.graph._graph_def import (
    ancestors,
    data_inputs,
    node_of,
    normalize,
    output_shape,
    prune,
    split_tensor,
    strip_missing_colocation,
    tensor_dtype,
)
from autodist.graph._marks import MARK, Mark, marks_gradients
from autodist.graph._nodes import NodeList
from autodist.graph._products import Factor, Product
from autodist.graph._reduction import Reduction
from autodist.graph._training_graph import Gradient, Output, Role, StepInput, TrainingGraph, Variable
from autodist.graph._uses import Use

__all__ = [
    "MARK",
    "CapturedStep",
    "Extent",
    "Factor",
    "FactoredGradient",
    "Factors",
    "Gradient",
    "Mark",
    "NodeList",
    "Output",
    "Product",
    "Reduction",
    "Role",
    "StepAnalysis",
    "StepInput",
    "TrainingGraph",
    "Use",
    "Variable",
    "VariableNames",
    "Write",
    "ancestors",
    "capture",
    "data_inputs",
    "factors_of",
    "marks_gradients",
    "node_of",
    "normalize",
    "output_shape",
    "prune",
    "split_tensor",
    "strip_missing_colocation",
    "tensor_dtype",
]
