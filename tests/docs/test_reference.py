"""The reference has every command, option, key and variable, and an example of every public name."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import autodist
from autodist.coordination import WorkerEnvironment
from autodist.resource_spec import _schema as schema
from tests.docs.reference import reference

ROOT = Path(__file__).parents[2]


def test_every_command_and_option_is_on_the_page():
    page = reference().commands_page()
    commands = dict(reference().commands(reference().autodist, "autodist"))
    assert len(commands) > 20
    for name, command in commands.items():
        section = page.partition(f"## {name} {{")[2].partition("\n## ")[0]
        options = [one for one in command.params if isinstance(one, click.Option)]
        missing = [
            word for one in options for word in one.opts if f"`{word}" not in section and f" {word}" not in section
        ]
        assert name == "autodist" or missing == [], name


def test_every_key_is_on_the_page():
    page = reference().files_page()
    assert [key for key in schema.ALLOWED if f"| `{key}` |" not in page] == []
    for key in ("ps", "all_reduce", "destination", "chunk_size", "parts", "replicas"):
        assert f"| `{key}` |" in page


def test_environment_variables_are_those_of_the_code():
    page = reference().VARIABLES.read_text()
    assert reference().with_variables(page) == page, "run scripts/reference_pages.py"
    environment = WorkerEnvironment(run_id="r").to_environ()
    assert {name for name in environment if not name.startswith("HOROVOD")} <= set(re.findall(r"`([A-Z_]+)`", page))
    assert len(reference().variables_table().splitlines()) == 2 + len(dataclasses.fields(WorkerEnvironment))


def test_variables_that_one_can_set_are_on_the_page():
    """What the package looks up by name in the environment is described, whoever sets it."""
    source = "\n".join(path.read_text() for path in (ROOT / "autodist").rglob("*.py"))
    asked = set(re.findall(r"\"(AUTODIST_[A-Z_]+[A-Z])\"", source))
    assert len(asked) > 20
    page = reference().VARIABLES.read_text()
    assert {name for name in asked if f"`{name}" not in page} == set()


def test_every_public_name_has_an_example():
    examples = "\n".join(
        re.findall(r"^```python.*?^```$", (ROOT / "docs/api.md").read_text(), re.MULTILINE | re.DOTALL)
    )
    assert [name for name in autodist.__all__ if f"autodist.{name}" not in examples] == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path):
    try:
        import mkdocs  # noqa: F401
        import mkdocstrings  # noqa: F401
    except ImportError:
        pytest.skip("mkdocs is not installed: `make docs` installs it")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "autodist search" in (tmp_path / "cli" / "index.html").read_text()
