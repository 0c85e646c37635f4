"""Starting a job's workers, watching them, and leaving nothing behind."""

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._environment import requested_environment, travelling_environment
from autodist.launch._local import LocalLauncher
from autodist.launch._plan import Meeting, Place, plan_workers
from autodist.launch._secrets import is_secret
from autodist.report import FailureKind, FailureReport, OutputLine, RunInfo, RunResult

__all__ = [
    "FailureKind",
    "FailureReport",
    "Job",
    "Launcher",
    "LocalLauncher",
    "Meeting",
    "OutputLine",
    "Place",
    "RunInfo",
    "RunObserver",
    "RunResult",
    "SilentObserver",
    "WorkerCommand",
    "is_secret",
    "plan_workers",
    "requested_environment",
    "travelling_environment",
]
