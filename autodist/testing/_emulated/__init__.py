"""Several hosts on one Linux machine, for tests of what runs on clusters."""

from autodist.testing._emulated._emulated_cluster import EmulatedCluster

__all__ = ["EmulatedCluster"]
