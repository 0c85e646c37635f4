"""From a user's step to a flat graph that describes itself: traced, inlined, and refused where it must be."""

from autodist.graph.tracing._array_program import as_array_program
from autodist.graph.tracing._capture import SOURCE_GRAPH, NoGradientError, capture
from autodist.graph.tracing._captured_step import CapturedStep, VariableNames
from autodist.graph.tracing._fixed_rank import refuse_left_out_rows
from autodist.graph.tracing._fixed_rows import refuse_fixed_beside_rows
from autodist.graph.tracing._hoist import argument_aliases
from autodist.graph.tracing._lengths import Lengths
from autodist.graph.tracing._loop_segments import LoopSegments, loop_segments
from autodist.graph.tracing._shared_examples import for_shared_examples
from autodist.graph.tracing._source_lines import said_in_tracing

__all__ = [
    "SOURCE_GRAPH",
    "CapturedStep",
    "Lengths",
    "LoopSegments",
    "NoGradientError",
    "VariableNames",
    "argument_aliases",
    "as_array_program",
    "capture",
    "for_shared_examples",
    "loop_segments",
    "refuse_fixed_beside_rows",
    "refuse_left_out_rows",
    "said_in_tracing",
]
