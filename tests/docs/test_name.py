"""The name under which AutoDist is installed: the name `autodist` is another project's on PyPI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS_NAME = re.compile(r"pip3? install [^`\n]*?(?<![\w./-])autodist(?![\w./-])")
TEXTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "autodist").rglob("*.py"), ROOT / "Makefile"]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/getting_started.md"])
def test_the_first_pages_say_it_within_a_screen(page: str):
    head = "\n".join((ROOT / page).read_text().splitlines()[:45])
    assert "`autodist-tf`" in head or "**`autodist-tf`**" in head
    assert "another project" in head


def test_nobody_is_told_to_install_the_other_project():
    wrong = [f"{path}: {found}" for path in TEXTS for found in OTHERS_NAME.findall(path.read_text())]
    assert wrong == []


def test_the_other_project_is_recognised():
    assert OTHERS_NAME.findall('pip install "autodist"') == ['pip install "autodist']
    assert OTHERS_NAME.findall('pip install "autodist-tf[cpu]" and ./autodist') == []
