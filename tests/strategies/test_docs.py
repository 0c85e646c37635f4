"""The examples in docstrings run; imports stay light."""

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import autodist.strategies

GUIDE = Path(__file__).parents[2] / "docs" / "strategies.md"
MODULES = [
    "autodist.strategies",
    *(m.name for m in pkgutil.walk_packages(autodist.strategies.__path__, "autodist.strategies.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    private = {"_base", "_asynchronous_uses", "_coupled", "_encoders"}
    assert result.attempted or "._builders" in name or name.rpartition(".")[2] in private or ".checks" in name


def test_the_guide_runs():
    result = doctest.testfile(str(GUIDE), module_relative=False)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_guides_file_is_a_strategy():
    text, partitioned = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert list(autodist.strategies.Strategy.from_json(text).groups) == [0]
    content = json.dumps(json.loads(text) | {"variables": [json.loads(partitioned)]})
    (config,) = autodist.strategies.Strategy.from_json(content).variables
    assert len(config.shards) == autodist.strategies.num_shards(config.partition)


def test_the_guide_lists_every_builder_with_its_parameters():
    for info in autodist.strategies.builders():
        written = {name: json.dumps(v) if isinstance(v, str) else repr(v) for name, v in info.parameters.items()}
        parameters = ", ".join(f"`{name}={value}`" for name, value in written.items())
        assert f"| `{info.name}` | {parameters} |" in GUIDE.read_text()


def test_public_names_are_complete_and_sorted():
    names = autodist.strategies.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(autodist.strategies, name) for name in names)


@pytest.mark.parametrize("module", ["autodist.strategies", "autodist.cli._strategies", "autodist.cli._explain_command"])
def test_import_is_light(module):
    heavy = ["tensorflow", "keras", "numpy", "scipy", "pydantic", "yaml", "rich", "horovod"]
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
