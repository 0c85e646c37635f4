"""Starting a job's workers, watching them, and leaving nothing behind."""

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._environment import requested_environment, travelling_environment
from autodist.launch._local import LocalLauncher
from autodist.launch._plan import Meeting, Place, plan_workers
from autodist.launch._restarts import RestartingLauncher
from autodist.launch._secrets import is_secret
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
    "is_secret",
    "plan_workers",
    "requested_environment",
    "travelling_environment",
]
