"""Tools for tests of AutoDist and of programs that use it."""

from autodist.testing._certify import Certificate, Difference, certify, compare_recordings
from autodist.testing._emulated import EmulatedCluster
from autodist.testing._in_process import InProcessCluster, InProcessWorker, certify_in_process
from autodist.testing._wire import sent_bytes, wire_bytes

__all__ = [
    "Certificate",
    "Difference",
    "EmulatedCluster",
    "InProcessCluster",
    "InProcessWorker",
    "certify",
    "certify_in_process",
    "compare_recordings",
    "sent_bytes",
    "wire_bytes",
]
