"""Kernels: the rewritings that turn G into what one worker runs, one concern each."""

from autodist.kernels._all_reduce import AllReduceGradients, AllReduceState
from autodist.kernels._asked import Asked, Question
from autodist.kernels._base import Combine, DistributedGraph, Kernel, Layout, Refresher, Serving, SyncPoint
from autodist.kernels._broadcast import BroadcastFactors
from autodist.kernels._encode import Encode
from autodist.kernels._exact import why_not_exact
from autodist.kernels._extra import ExtraKernel
from autodist.kernels._part_shapes import PICKED, refuse_fixed_batches
from autodist.kernels._partition import shard_name
from autodist.kernels._pipeline import KernelTiming, kernels_for, prepare, rewrite
from autodist.kernels._place import Place
from autodist.kernels._proxies import proxy_name
from autodist.kernels._prune import Prune
from autodist.kernels._ps import ParameterServers
from autodist.kernels._replicate import Replicate
from autodist.kernels._same_batches import DIFFERENT_BATCHES
from autodist.kernels._share_batch import OTHER_ROWS
from autodist.kernels._synchronizers import SynchronizerKernel
from autodist.kernels._warnings import warnings_of

__all__ = [
    "DIFFERENT_BATCHES",
    "OTHER_ROWS",
    "PICKED",
    "AllReduceGradients",
    "AllReduceState",
    "Asked",
    "BroadcastFactors",
    "Combine",
    "DistributedGraph",
    "Encode",
    "ExtraKernel",
    "Kernel",
    "KernelTiming",
    "Layout",
    "ParameterServers",
    "Place",
    "Prune",
    "Question",
    "Refresher",
    "Replicate",
    "Serving",
    "SyncPoint",
    "SynchronizerKernel",
    "kernels_for",
    "prepare",
    "proxy_name",
    "refuse_fixed_batches",
    "rewrite",
    "shard_name",
    "warnings_of",
    "why_not_exact",
]
