"""Files that a run leaves in its directory; from there it can be looked at and asked to end."""

from autodist.launch.run_files._logs import read_logs
from autodist.launch.run_files._run_directory import RunDirectory, files_of_run, is_launchers_own
from autodist.launch.run_files._runs import find_run, list_runs
from autodist.launch.run_files._status import StatusKeeper, end_restarts, read_status
from autodist.launch.run_files._stop import stop_run

__all__ = [
    "RunDirectory",
    "StatusKeeper",
    "end_restarts",
    "files_of_run",
    "find_run",
    "is_launchers_own",
    "list_runs",
    "read_logs",
    "read_status",
    "stop_run",
]
