import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import autodist.compressors
import autodist.registry
from autodist.compressors import get, registered

GUIDE = Path(__file__).parents[2] / "docs" / "compressors.md"
MODULES = [
    module.name
    for package in (autodist.compressors, autodist.registry)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", ["autodist.compressors", *MODULES])
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_guide_runs():
    result = doctest.testfile(str(GUIDE), module_relative=False)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_guide_lists_every_compressor_with_its_parameters():
    text = GUIDE.read_text()
    for one in registered():
        defaults = {} if one.name == "ErrorFeedback" else one.parameters
        parameters = ", ".join(f"`{name}={value!r}`" for name, value in defaults.items())
        assert f"| `{one.name}` | {parameters + ' ' if parameters else ''}" in text


def test_compressors_in_the_guide_are_read():
    texts = re.findall(r"compressor(?:=|\": )[\"']([^\"']+)[\"']", GUIDE.read_text())
    assert len(texts) == 3
    for text in texts:
        get(text)
