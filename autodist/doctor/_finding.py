"""The finding of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How bad it is; the worst one is last."""

    OK = "OK"
    WARN = "WARN"
    """Training can run, but slower than it could, or with a risk."""
    FAIL = "FAIL"
    """Training can't run."""


@dataclass(frozen=True)
class Finding:
    """The result of one check of one host.

    Attributes:
        host: The machine's address in the spec.
        check: The name of the check.
        status: How bad it is.
        message: What was found.
        remedy: What to do about it; empty if all is well.

    Example:
        >>> Finding("worker1", "disk", Status.OK, "80 GB free").remedy
        ''
    """

    host: str
    check: str
    status: Status
    message: str
    remedy: str = ""
