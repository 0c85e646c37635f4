"""Capture: from a single-device training step to a :class:`TrainingGraph`.

Importing this package does not import TensorFlow; capturing does.
"""

from autodist.graph._attribute_patches import Patches
from autodist.graph._constants import static_value
from autodist.graph._editor import GraphEditor
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    COMPILED,
    ancestors,
    called_functions,
    constant_value,
    data_inputs,
    full_name,
    has_loops_back,
    is_stateful,
    itemsize,
    node_of,
    normalize,
    num_outputs,
    output_shape,
    output_types,
    split_tensor,
    strip_missing_colocation,
    tensor_dtype,
    tensor_name,
    tensor_shape,
)
from autodist.graph._identity import Identity
from autodist.graph._index import GraphIndex
from autodist.graph._nodes import NodeList
from autodist.graph._random import draws_by_kernels, draws_inside
from autodist.graph._serialize import without_directories
from autodist.graph._step_trace import NodeTime, StepTrace, TraceSubject
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import Gradient, Output, Role, ShardOrigin, StepInput, Variable
from autodist.graph.analysis import (
    ROWLIKE,
    BatchScaling,
    Reduction,
    StepAnalysis,
    VariableUse,
    Write,
    gradients_of_statistics,
    reduction_of_met,
    takes_rows,
)
from autodist.graph.annotations import (
    MARK,
    TARGET,
    GradientMark,
    adopt_marks,
    mark_v1_gradients,
    marks_gradients,
    parse_mark,
)
from autodist.graph.batch import SCALING_OF
from autodist.graph.operators import BRANCHES, CALLS, LOOPS
from autodist.graph.products import ID_DTYPE, Factor, FactoredGradient, Factors, Ids, Product, factors_of
from autodist.graph.tracing import (
    SOURCE_GRAPH,
    CapturedStep,
    Lengths,
    NoGradientError,
    VariableNames,
    argument_aliases,
    as_array_program,
    capture,
    refuse_fixed_beside_rows,
    refuse_left_out_rows,
    said_in_tracing,
)
from autodist.graph.updates import Domain, Obstacle, UpdateRegion, UpdateRegions, in_parts, is_aligned

__all__ = [
    "BRANCHES",
    "CALLS",
    "COMPILED",
    "ID_DTYPE",
    "LOOPS",
    "MARK",
    "ROWLIKE",
    "SCALING_OF",
    "SOURCE_GRAPH",
    "TARGET",
    "BatchScaling",
    "CapturedStep",
    "Domain",
    "Factor",
    "FactoredGradient",
    "Factors",
    "FunctionBodies",
    "Gradient",
    "GradientMark",
    "GraphEditor",
    "GraphIndex",
    "Identity",
    "Ids",
    "Lengths",
    "NoGradientError",
    "NodeList",
    "NodeTime",
    "Obstacle",
    "Output",
    "Patches",
    "Product",
    "Reduction",
    "Role",
    "ShardOrigin",
    "StepAnalysis",
    "StepInput",
    "StepTrace",
    "TraceSubject",
    "TrainingGraph",
    "UpdateRegion",
    "UpdateRegions",
    "Variable",
    "VariableNames",
    "VariableUse",
    "Write",
    "adopt_marks",
    "ancestors",
    "argument_aliases",
    "as_array_program",
    "called_functions",
    "capture",
    "constant_value",
    "data_inputs",
    "draws_by_kernels",
    "draws_inside",
    "factors_of",
    "full_name",
    "gradients_of_statistics",
    "has_loops_back",
    "in_parts",
    "is_aligned",
    "is_stateful",
    "itemsize",
    "mark_v1_gradients",
    "marks_gradients",
    "node_of",
    "normalize",
    "num_outputs",
    "output_shape",
    "output_types",
    "parse_mark",
    "reduction_of_met",
    "refuse_fixed_beside_rows",
    "refuse_left_out_rows",
    "said_in_tracing",
    "split_tensor",
    "static_value",
    "strip_missing_colocation",
    "takes_rows",
    "tensor_dtype",
    "tensor_name",
    "tensor_shape",
    "without_directories",
]
