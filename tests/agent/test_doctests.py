"""The examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import autodist.agent as package


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(package.__path__)])
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(f"{package.__name__}.{name}")).failed == 0
