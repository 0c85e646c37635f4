"""Conditions under which a strategy is right for a graph on a cluster, one concern each."""

from autodist.strategies.checks._check_types import require_types
from autodist.strategies.checks._verify import check, verify

__all__ = [
    "check",
    "require_types",
    "verify",
]
