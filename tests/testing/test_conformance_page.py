"""The page on extending AutoDist: its examples run, and it names what there is."""

import doctest
import re
from pathlib import Path

from .conforming import kernels_for_nothing

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_page_runs():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_page_names_the_places_of_kernels():
    shown = re.search(r"it\s+follows: (.*?)\.", PAGE.read_text(), re.DOTALL)
    assert re.findall(r"`([a-z-]+)`", shown[1]) == [kernel.name for kernel in kernels_for_nothing()]
