"""Workers in one process: the steps that kernels make, running, without a launcher and without other processes."""

from autodist.testing._in_process._against_one_device import certify_in_process
from autodist.testing._in_process._in_process_cluster import InProcessCluster
from autodist.testing._in_process._in_process_worker import InProcessWorker

__all__ = ["InProcessCluster", "InProcessWorker", "certify_in_process"]
