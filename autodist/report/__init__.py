"""Reports, as data and drawn on a terminal. Drawing imports rich when it is done, not before."""

from autodist.report._aligned_facts import show_facts
from autodist.report._cells import fitted as fitted_table
from autodist.report._cells import table_console
from autodist.report._consoles import error_console, output_console
from autodist.report._difference import show_difference
from autodist.report._errors import show_error, show_warning
from autodist.report._escapes import plain as plain_text
from autodist.report._explanation import show_explanation
from autodist.report._launch_report import show_plan
from autodist.report._live_line import LiveLine
from autodist.report._prediction import PredictionRow, show_predictions
from autodist.report._profile_tables import OpRow, ProfileSheet, VariableTimeRow, show_profile
from autodist.report._run_console import RunConsole
from autodist.report._run_data import (
    CheckpointProgress,
    FailureKind,
    FailureReport,
    OutputLine,
    PlannedWorker,
    RunInfo,
    RunResult,
    TriedStrategy,
)
from autodist.report._run_status import ProcessId, RunState, RunStatus, WorkerState, WorkerStatus
from autodist.report._run_tables import LogConsole, show_run, show_runs
from autodist.report._search_console import SearchConsole, SearchProgress, TrialRow, milliseconds, money, show_trials
from autodist.report._timeline_table import show_timeline

__all__ = [
    "CheckpointProgress",
    "FailureKind",
    "FailureReport",
    "LiveLine",
    "LogConsole",
    "OpRow",
    "OutputLine",
    "PlannedWorker",
    "PredictionRow",
    "ProcessId",
    "ProfileSheet",
    "RunConsole",
    "RunInfo",
    "RunResult",
    "RunState",
    "RunStatus",
    "SearchConsole",
    "SearchProgress",
    "TrialRow",
    "TriedStrategy",
    "VariableTimeRow",
    "WorkerState",
    "WorkerStatus",
    "error_console",
    "fitted_table",
    "milliseconds",
    "money",
    "output_console",
    "plain_text",
    "show_difference",
    "show_error",
    "show_explanation",
    "show_facts",
    "show_plan",
    "show_predictions",
    "show_profile",
    "show_run",
    "show_runs",
    "show_timeline",
    "show_trials",
    "show_warning",
    "table_console",
]
