"""The package as others see it: names, imports, examples, reference."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import autodist.resource_spec as package
from autodist.resource_spec import ResourceSpec

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "resource_spec.md").read_text()
MODULES = [f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]


def test_public_names():
    public = {name for name in vars(package) if not name.startswith("_") and name != "annotations"}
    assert public == set(package.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_importing_it_is_cheap():
    code = (
        "import sys, autodist.resource_spec; print([m for m in ('tensorflow', 'pydantic', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_reading_a_file_does_not_import_tensorflow():
    code = "import sys; from autodist.resource_spec import ResourceSpec as R; R.from_file(sys.argv[1]); R.local()"
    code += "; print('tensorflow' in sys.modules)"
    example = str(ROOT / "resource_specs" / "gpus.yml")
    done = subprocess.run([sys.executable, "-c", code, example], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "workers", "replicas", "links"),
    [
        ("local_two_workers", 2, 2, 0),
        ("local_two_devices", 1, 2, 0),
        ("ssh_four_hosts", 4, 4, 0),
        ("uneven", 3, 5, 0),
        ("links", 6, 6, 12),
        ("gpus", 3, 8, 0),
    ],
)
def test_example_files(name, workers, replicas, links):
    spec = ResourceSpec.from_file(ROOT / "resource_specs" / f"{name}.yml")
    assert (spec.world_size, len(spec.replicas), len(spec.links)) == (workers, replicas, links)


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", REFERENCE, re.DOTALL))
def test_examples_of_the_reference(text):
    assert ResourceSpec.from_yaml(text).world_size > 1


def test_the_reference_has_every_key():
    from autodist.resource_spec._schema import ALLOWED

    rows = set(re.findall(r"^\| `(\w+)` \|", REFERENCE, re.MULTILINE))
    assert rows == set(ALLOWED)
