"""The parts of the program that are intercepted while a scope is open: functions, optimizers, variables, sessions."""

from autodist.runtime.hooks._eager_updates import eagerly_alike
from autodist.runtime.hooks._function_hooks import hook_functions, hook_optimizers
from autodist.runtime.hooks._graph_session import GraphSession, make_session, refuse_plain_sessions
from autodist.runtime.hooks._keras_devices import list_all_replicas
from autodist.runtime.hooks._scopes import OPEN, refuse_fit_outside, refuse_keras2_fit_outside
from autodist.runtime.hooks._variable_hooks import hook_variables

__all__ = [
    "OPEN",
    "GraphSession",
    "eagerly_alike",
    "hook_functions",
    "hook_optimizers",
    "hook_variables",
    "list_all_replicas",
    "make_session",
    "refuse_fit_outside",
    "refuse_keras2_fit_outside",
    "refuse_plain_sessions",
]
