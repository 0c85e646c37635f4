"""Kernels: the rewritings that turn G into what one worker runs, one concern each."""

from autodist.kernels._any_length import for_any_length
from autodist.kernels._base import Combine, DistributedGraph, Kernel, Refresher, Serving, SyncPoint
from autodist.kernels._delay import KeptGradients, Turn
from autodist.kernels._encode import Encode
from autodist.kernels._extra import ExtraKernel
from autodist.kernels._layout import Layout
from autodist.kernels._length_numbers import Length
from autodist.kernels._pipeline import KernelTiming, kernels_for, prepare, rewrite
from autodist.kernels._place import Place
from autodist.kernels._prune import Prune
from autodist.kernels._questions import Question, QuestionSet
from autodist.kernels._synchronizers import SynchronizerKernel
from autodist.kernels.collectives import AllReduceGradients, AllReduceState, BroadcastFactors
from autodist.kernels.replicate import (
    DIFFERENT_BATCHES,
    OTHER_ROWS,
    PICKED,
    Replicate,
    refuse_fixed_batches,
    warnings_of,
    why_not_exact,
)
from autodist.kernels.requests import Requests
from autodist.kernels.servers import ParameterServers, proxy_name
from autodist.kernels.shard import shard_name

__all__ = [
    "DIFFERENT_BATCHES",
    "OTHER_ROWS",
    "PICKED",
    "AllReduceGradients",
    "AllReduceState",
    "BroadcastFactors",
    "Combine",
    "DistributedGraph",
    "Encode",
    "ExtraKernel",
    "KeptGradients",
    "Kernel",
    "KernelTiming",
    "Layout",
    "Length",
    "ParameterServers",
    "Place",
    "Prune",
    "Question",
    "QuestionSet",
    "Refresher",
    "Replicate",
    "Requests",
    "Serving",
    "SyncPoint",
    "SynchronizerKernel",
    "Turn",
    "for_any_length",
    "kernels_for",
    "prepare",
    "proxy_name",
    "refuse_fixed_batches",
    "rewrite",
    "shard_name",
    "warnings_of",
    "why_not_exact",
]
