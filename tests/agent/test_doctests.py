"""The examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import autodist.agent as package


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
