"""The examples in docstrings of what searches go by: space and searchers, simulators, carriers, costs."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = [importlib.import_module(f"autodist.{name}") for name in ("carriers", "cost", "search", "simulator")]
MODULES = [
    module.name for package in PACKAGES for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
