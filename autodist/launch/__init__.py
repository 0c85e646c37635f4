"""Starting a job's workers, watching them, and leaving nothing behind."""

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._environment import requested_environment, travelling_environment
from autodist.launch._local import LocalLauncher
from autodist.launch._logs import read_logs
from autodist.launch._plan import Meeting, Place, plan_workers
from autodist.launch._restarts import RestartingLauncher
from autodist.launch._runs import find_run, list_runs
from autodist.launch._secrets import is_secret
from autodist.launch._status import read_status
from autodist.launch._stop import stop_run
from autodist.report import CheckpointProgress, FailureKind, FailureReport, OutputLine, RunInfo, RunResult

__all__ = [
    "CheckpointProgress",
    "FailureKind",
    "FailureReport",
    "Job",
    "Launcher",
    "LocalLauncher",
    "Meeting",
    "OutputLine",
    "Place",
    "RestartingLauncher",
    "RunInfo",
    "RunObserver",
    "RunResult",
    "SilentObserver",
    "WorkerCommand",
    "find_run",
    "is_secret",
    "list_runs",
    "plan_workers",
    "read_logs",
    "read_status",
    "requested_environment",
    "stop_run",
    "travelling_environment",
]
