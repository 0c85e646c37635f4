"""Starting a job's workers, watching them, and leaving nothing behind."""

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._local import LocalLauncher
from autodist.report import FailureKind, FailureReport, OutputLine, RunInfo, RunResult

__all__ = [
    "FailureKind",
    "FailureReport",
    "Job",
    "Launcher",
    "LocalLauncher",
    "OutputLine",
    "RunInfo",
    "RunObserver",
    "RunResult",
    "SilentObserver",
    "WorkerCommand",
]
