"""The nodes of a flat step: how its tensors depend on the batch, and what its variables are."""

from autodist.graph.analysis._batch_scaling import ROWLIKE, BatchScaling
from autodist.graph.analysis._lookups import look_up_before_casting, takes_rows
from autodist.graph.analysis._means import sum_up_means
from autodist.graph.analysis._reduction import Reduction, reduction_of_met
from autodist.graph.analysis._roles import BareVariable, assign_roles
from autodist.graph.analysis._step_analysis import StepAnalysis, Write
from autodist.graph.analysis._uses import VariableUse, variable_uses
from autodist.graph.analysis._vectorized_gradients import gradients_of_statistics

__all__ = [
    "ROWLIKE",
    "BareVariable",
    "BatchScaling",
    "Reduction",
    "StepAnalysis",
    "VariableUse",
    "Write",
    "assign_roles",
    "gradients_of_statistics",
    "look_up_before_casting",
    "reduction_of_met",
    "sum_up_means",
    "takes_rows",
    "variable_uses",
]
