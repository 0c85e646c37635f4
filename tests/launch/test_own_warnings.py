"""Warnings in a worker: AutoDist's own take a line, others are as Python shows them."""

import warnings

from autodist.strategies import RetargetedWarning
from autodist.worker._own_warnings import show_own_warnings_in_a_line


def test_only_own_ones_lose_the_line_of_code(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    as_python_shows_it = warnings.formatwarning("mind this", UserWarning, "train.py", 3, "x = 1")
    show_own_warnings_in_a_line()
    assert warnings.formatwarning(RetargetedWarning("mind that"), RetargetedWarning, "x.py", 9) == (
        "warning: mind that\n"
    )
    assert warnings.formatwarning("mind this", UserWarning, "train.py", 3, "x = 1") == as_python_shows_it
    assert "train.py:3" in as_python_shows_it
