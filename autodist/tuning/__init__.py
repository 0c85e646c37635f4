"""Searching on real machines: launched workers measure what the search proposes."""

from autodist.tuning._bench import Course, LaunchedBench

__all__ = ["Course", "LaunchedBench"]
