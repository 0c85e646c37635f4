"""The machines of a run, made ready for its workers: what goes there, what is checked, what comes back."""

from autodist.launch.machines._collection import collect
from autodist.launch.machines._fleet import Fleet
from autodist.launch.machines._launch_plan import Rendezvous, plan_workers
from autodist.launch.machines._machines import is_here, machines_with_ranks
from autodist.launch.machines._permission_checks import check_permission
from autodist.launch.machines._preparation import compare_software, missing_data, prepare
from autodist.launch.machines._processors import find_shared_cores
from autodist.launch.machines._sites import Site, expected_sites
from autodist.launch.machines._strategy_argument import check_cluster, strategy_argument

__all__ = [
    "Fleet",
    "Rendezvous",
    "Site",
    "check_cluster",
    "check_permission",
    "collect",
    "compare_software",
    "expected_sites",
    "find_shared_cores",
    "is_here",
    "machines_with_ranks",
    "missing_data",
    "plan_workers",
    "prepare",
    "strategy_argument",
]
