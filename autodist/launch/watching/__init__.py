"""Started workers are watched until all have ended; what went wrong is reported with its cause."""

from autodist.launch.watching._failures import Verdict, exit_code_of, report_failure
from autodist.launch.watching._neighbour_watch import Neighbours
from autodist.launch.watching._supervisor import Supervisor

__all__ = [
    "Neighbours",
    "Supervisor",
    "Verdict",
    "exit_code_of",
    "report_failure",
]
