"""Starting a job's workers, watching them, and leaving nothing behind."""

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._cluster import ClusterLauncher
from autodist.launch._fetch import FetchedFiles, fetch
from autodist.launch._forwarded_environment import forwarded_environment, requested_environment
from autodist.launch._local_launcher import LocalLauncher
from autodist.launch._restarts import RestartingLauncher
from autodist.launch._secrets import is_secret
from autodist.launch._transports import TRANSPORTS, TransportName, make_transport
from autodist.launch.run_files import (
    RunDirectory,
    StatusKeeper,
    files_of_run,
    find_run,
    list_runs,
    read_logs,
    read_status,
    stop_run,
)
from autodist.report import CheckpointProgress, FailureKind, FailureReport, OutputLine, RunInfo, RunResult

__all__ = [
    "TRANSPORTS",
    "CheckpointProgress",
    "ClusterLauncher",
    "FailureKind",
    "FailureReport",
    "FetchedFiles",
    "Job",
    "Launcher",
    "LocalLauncher",
    "OutputLine",
    "RestartingLauncher",
    "RunDirectory",
    "RunInfo",
    "RunObserver",
    "RunResult",
    "SilentObserver",
    "StatusKeeper",
    "TransportName",
    "WorkerCommand",
    "fetch",
    "files_of_run",
    "find_run",
    "forwarded_environment",
    "is_secret",
    "list_runs",
    "make_transport",
    "read_logs",
    "read_status",
    "requested_environment",
    "stop_run",
]
