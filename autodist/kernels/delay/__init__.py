"""Gradients that are exchanged and applied some steps after the one that has computed them."""

from autodist.kernels.delay._delayed_gradients import DelayedGradients

__all__ = ["DelayedGradients"]
